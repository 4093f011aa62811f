"""A GGUF file gives what transformers gives, and is read once."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf_files import BEGIN, END, LAYERS, write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers import modeling_gguf_pytorch_utils as loading

from splitstep.opening import open_model
from splitstep.text.tokenizers import open_tokenizer

gguf: Any = pytest.importorskip("gguf")


def test_weights_tokens_and_settings_are_those_of_transformers_and_can_be_saved(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", bos=BEGIN, eos=END)
    where: Any = {"pretrained_model_name_or_path": tmp_path, "gguf_file": file.name}
    expected, tokenizer = AutoModelForCausalLM.from_pretrained(**where), AutoTokenizer.from_pretrained(**where)
    found = open_model(file)
    weights, theirs = found.model.state_dict(), expected.state_dict()
    assert weights.keys() == theirs.keys()
    assert all(torch.equal(weights[name], theirs[name]) for name in theirs)
    assert found.needs_tokenizer()("abc ab!").input_ids == tokenizer("abc ab!").input_ids
    assert found.needs_tokenizer().get_vocab() == tokenizer.get_vocab()
    assert found.model.config.num_hidden_layers == LAYERS
    found.model.save_pretrained(tmp_path / "saved")
    found.tokenizer.save_pretrained(tmp_path / "saved")
    again, ids = open_model(tmp_path / "saved"), torch.tensor([tokenizer("abc ab!").input_ids])
    torch.testing.assert_close(again.model(ids).logits, found.model(ids).logits, rtol=0, atol=0)
    written = [one.model.generate(ids, max_new_tokens=5, do_sample=False).tolist() for one in (again, found)]
    assert written[0] == written[1]
    assert "quantization_config" not in json.loads((tmp_path / "saved" / "config.json").read_text())


@pytest.mark.parametrize("special", [{"bos": BEGIN, "eos": END}, {"bos": END, "eos": BEGIN}, {"bos": BEGIN}, {}])
def test_the_beginning_and_the_end_are_those_that_the_file_names(special: dict[str, int], tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", **special)
    for tokenizer in (open_model(file).needs_tokenizer(), open_tokenizer(str(file))):
        assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (special.get("bos"), special.get("eos"))
        assert tokenizer.decode(tokenizer("abc ab!").input_ids) == "abc ab!"
        tokenizer.save_pretrained(tmp_path / "saved")
        again = AutoTokenizer.from_pretrained(tmp_path / "saved")
        assert (again.bos_token_id, again.eos_token_id) == (tokenizer.bos_token_id, tokenizer.eos_token_id)


def test_a_file_is_read_once_without_a_bar_and_the_package_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, built = write_gguf(tmp_path / "tiny.gguf", bos=BEGIN, eos=END), list[Any]()
    before, build = (gguf.GGUFReader, gguf.get_tensor_name_map), gguf.GGUFReader.__init__

    def counting(self: Any, *args: Any, **kwargs: Any) -> None:
        built.append(self)
        build(self, *args, **kwargs)

    monkeypatch.setattr(gguf.GGUFReader, "__init__", counting)
    open_model(file)
    assert tuple(capsys.readouterr()) == ("", "")
    assert len(built) == 1
    assert type(built[0].data) is np.ndarray
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"tiny\.gguf does not open: it is damaged"):
        open_model(file)
    assert (gguf.GGUFReader, gguf.get_tensor_name_map) == before
    assert loading.__dict__["tqdm"].__name__.startswith("tqdm")
