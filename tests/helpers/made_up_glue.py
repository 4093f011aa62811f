"""Files of GLUE that nobody published: their columns, and rows of no meaning."""

from pathlib import Path

from splitstep.tasks.glue import HEADLESS, PARTS

HEADERS = {
    "CoLA": {"train": "source label mark sentence", "dev": "source label mark sentence", "test": "index sentence"},
    "SST-2": {"train": "sentence label", "dev": "sentence label", "test": "index sentence"},
    "MRPC": {
        "train": "Quality #1_ID #2_ID #1_String #2_String", "dev": "Quality #1_ID #2_ID #1_String #2_String",
        "test": "index #1_ID #2_ID #1_String #2_String",
    },
    "RTE": {
        "train": "index sentence1 sentence2 label", "dev": "index sentence1 sentence2 label",
        "test": "index sentence1 sentence2",
    },
    "WNLI": {
        "train": "index sentence1 sentence2 label", "dev": "index sentence1 sentence2 label",
        "test": "index sentence1 sentence2",
    },
    "STS-B": {
        "train": "index genre filename year old_index source1 source2 sentence1 sentence2 score",
        "dev": "index genre filename year old_index source1 source2 sentence1 sentence2 score",
        "test": "index genre filename year old_index source1 source2 sentence1 sentence2",
    },
    "MNLI": {
        "train": "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
        "sentence2_parse sentence1 sentence2 label1 gold_label",
        "dev_matched": "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
        "sentence2_parse sentence1 sentence2 label1 label2 label3 label4 label5 gold_label",
        "test_matched": "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
        "sentence2_parse sentence1 sentence2",
    },
    "QQP": {
        "train": "id qid1 qid2 question1 question2 is_duplicate",
        "dev": "id qid1 qid2 question1 question2 is_duplicate",
        "test": "id question1 question2",
    },
    "QNLI": {
        "train": "index question sentence label", "dev": "index question sentence label",
        "test": "index question sentence",
    },
}  # fmt: skip
for split in ("dev", "test"):
    HEADERS["MNLI"][f"{split}_mismatched"] = HEADERS["MNLI"][f"{split}_matched"]


def made_up(folder: Path, name: str) -> None:
    """Files of a task with its published columns and 60 rows each."""
    part = PARTS[name]
    (folder / "glue" / part.folder).mkdir(parents=True)
    for file, header in HEADERS[part.folder].items():
        columns = [column.replace("_S", " S").replace("_I", " I") for column in header.split()]
        rows = []
        for i in range(60):
            values = {column: f"{column} {i}" for column in columns}
            values |= {part.number: str(i)}
            values |= {one: f'he said "{one} {i}' for one in part.texts}
            values |= {part.label: part.written[i % len(part.written)] if part.written else f"{i % 6}.250"}
            rows.append([values[column] for column in columns])
        head = [] if part.folder in HEADLESS and file != "test" else [columns]
        text = "\n".join("\t".join(row) for row in [*head, *rows])
        (folder / "glue" / part.folder / f"{file}.tsv").write_text(text)
