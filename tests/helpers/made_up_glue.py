"""Files of GLUE that nobody published: their columns, and rows of no meaning."""

from pathlib import Path

from splitstep.tasks.glue import HEADLESS, PARTS

TWO = "index sentence1 sentence2"
SIMILAR = "index genre filename year old_index source1 source2 sentence1 sentence2"
PARSED = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse "
    "sentence1 sentence2"
)
COLUMNS = {  # of training and validation, and of the test
    "CoLA": ("source label mark sentence", "index sentence"),
    "SST-2": ("sentence label", "index sentence"),
    "MRPC": ("Quality #1_ID #2_ID #1_String #2_String", "index #1_ID #2_ID #1_String #2_String"),
    "RTE": (f"{TWO} label", TWO),
    "WNLI": (f"{TWO} label", TWO),
    "STS-B": (f"{SIMILAR} score", SIMILAR),
    "QQP": ("id qid1 qid2 question1 question2 is_duplicate", "id question1 question2"),
    "QNLI": ("index question sentence label", "index question sentence"),
}
HEADERS = {name: {"train": own, "dev": own, "test": test} for name, (own, test) in COLUMNS.items()}
HEADERS["MNLI"] = {"train": f"{PARSED} label1 gold_label"}
for kind in ("matched", "mismatched"):
    HEADERS["MNLI"][f"dev_{kind}"] = f"{PARSED} label1 label2 label3 label4 label5 gold_label"
    HEADERS["MNLI"][f"test_{kind}"] = PARSED


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
