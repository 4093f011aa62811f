"""Networks of others in a run: they train, are saved and load like ours, and what does not fit is refused in a line."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from strangers import BATCH_NORM, FUTURE, GOOD, HEAD, gpt2, llama, write_block, write_config
from transformers import (
    BertConfig,
    DeepseekV3Config,
    FalconConfig,
    GPTNeoXConfig,
    MambaConfig,
    MixtralConfig,
    OPTConfig,
    PhiConfig,
    PretrainedConfig,
    Qwen3MoeConfig,
    Starcoder2Config,
    T5Config,
)

from splitstep import cli
from splitstep.inference.generate import Sampling, generate
from splitstep.models.block import TRUSTED, SplitstepBlockForCausalLM, block_of, mark_of
from splitstep.models.cost import counted
from splitstep.opening.load import open_model
from splitstep.opening.others import adapted_config, build, check_network, maker
from splitstep.recipe import Recipe, load_recipe
from splitstep.sources import BlockSource
from splitstep.training import train
from splitstep.training.networks import cost_of

SIZES = (
    "data.length=24", "model.layers=2", "model.width=32", "model.heads=4", "model.ffn=64", "model.positions=rotary",
    "train.steps=2", "train.batch=4", "train.warmup=1", "train.lr=1e-3", "train.mode=eager",
)  # fmt: skip


def network(name: str, file: str) -> str:
    return f"network={{name: {name}, file: '{file}'}}"


Recipes = Callable[..., Recipe]


@pytest.fixture
def block(recipe: Recipes, tmp_path: Path) -> Recipes:
    """Recipes for a network of this block, with other entries."""
    return lambda text=GOOD, *more, name="block": recipe(network("block", write_block(tmp_path, text, name)), *more)


@pytest.fixture
def configured(recipe: Recipes, tmp_path: Path) -> Recipes:
    """Recipes for a network of this config, with other entries; `kept`: in the config's own size."""
    return lambda config, *more, kept="": recipe(network("config", write_config(tmp_path, config) + kept), *more)


def arms(folder: Path) -> dict[str, str]:
    return {
        "block": network("block", write_block(folder)),
        "llama": network("config", write_config(folder, llama())),
        "gpt2": network("config", write_config(folder, gpt2())),
        **{name: f"scheme={name}" for name in ("lie", "macaron", "parallel")},
    }


@pytest.mark.parametrize("name", ["block", "llama", "gpt2", "lie", "macaron", "parallel"])
def test_every_arm_trains_and_loads_with_the_same_logits(name: str, recipe: Recipes, tmp_path: Path) -> None:
    asked = recipe(arms(tmp_path)[name])
    result = train(asked, tmp_path / "run", quiet=True)
    assert (result.status, result.steps) == ("finished", 2)
    first, again = (open_model(tmp_path / "run") for _ in range(2))
    ids = torch.randint(256, (2, 24), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = first.model(input_ids=ids, use_cache=False).logits
        assert torch.equal(logits, again.model(input_ids=ids, use_cache=False).logits)
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert 3 < float(loss) < 8
    assert result.cost == cost_of(asked, asked.load_task())
    assert result.cost.parameters == sum(p.numel() for p in first.model.parameters())


def test_a_block_initialises_itself_and_the_rest_as_the_recipe_says(block: Recipes) -> None:
    asked = block(GOOD, "model.init_std=0.1", "model.width=64")
    model = maker(asked, asked.load_task())()
    assert all(torch.equal(layer.out.bias, torch.full((64,), 0.25)) for layer in model.layers)
    assert float(model.layers[0].up.weight.detach().std()) == pytest.approx(
        (1 / 64 / 3) ** 0.5, rel=0.05
    )  # as nn.Linear does
    assert float(model.embedding.tokens.weight.detach().std()) == pytest.approx(0.1, rel=0.05)
    assert model.embedding.positions is not None, "rotary positions become learned ones"
    assert model.head.weight is model.embedding.tokens.weight


def test_the_first_weights_come_from_the_seed_alone(block: Recipes) -> None:
    asked = block()
    task, found = asked.load_task(), []
    for number in range(2):
        torch.manual_seed(number)
        found.append(build(asked, task, float("inf")).state_dict())
    assert all(torch.equal(x, found[1][name]) for name, x in found[0].items())


def test_a_run_continues_as_if_it_had_not_stopped(block: Recipes, tmp_path: Path) -> None:
    text = GOOD.replace("self.norms[1](x)", "F.dropout(self.norms[1](x), 0.3, self.training)")
    asked = block(text, "train.steps=4", "train.schedule=constant")
    short = asked.changed({"train.steps": 2})
    whole = train(asked, tmp_path / "whole", quiet=True)
    train(short, tmp_path / "halves", quiet=True)
    assert train(asked, tmp_path / "halves", quiet=True).valid == whole.valid


def test_a_block_writes_text_without_a_cache(block: Recipes, tmp_path: Path) -> None:
    asked = block()
    train(asked, tmp_path / "run", quiet=True)
    found = generate(tmp_path / "run", "line 3", 30, Sampling(temperature=0))
    model, ids = open_model(tmp_path / "run").model, list(b"line 3")
    for _ in range(30):
        ids.append(int(model(input_ids=torch.tensor([ids[-24:]])).logits[0, -1].argmax()))
    assert found.text == bytes(ids[6:]).decode(errors="replace")


def test_the_shell_names_the_network(block: Recipes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(block().document(), sort_keys=False))
    assert cli.main(["train", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "run")]) == 0
    assert re.search("^network +mine.py:block$", capsys.readouterr().out, re.MULTILINE)
    assert cli.main(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scheme"] is None


@pytest.mark.parametrize("name", ["block", "llama", "gpt2"])
def test_a_run_that_diverges_says_where(name: str, recipe: Recipes, tmp_path: Path) -> None:
    asked = recipe(arms(tmp_path)[name], "train.lr=1e30", "train.clip=0", "train.steps=6", "train.log_every=1")
    result = train(asked, tmp_path / "run", quiet=True)
    assert result.status == "diverged"
    assert result.diverged is not None
    assert (len(result.diverged.state_norms), len(result.diverged.weight_norms)) == (3, 2)


def test_the_source_is_in_the_run_and_another_one_is_refused(block: Recipes, tmp_path: Path) -> None:
    asked = block()
    train(asked, tmp_path / "run", quiet=True)
    stored = load_recipe(str(tmp_path / "run" / "recipe.yaml"))
    assert stored == asked
    assert isinstance(stored.source, BlockSource)
    assert stored.source.text == GOOD
    changed = block(GOOD.replace("0.5", "0.6"))
    with pytest.raises(ValueError, match=r"^.* belongs to another run with network.text=a text of SHA-256 .*--out$"):
        train(changed, tmp_path / "run", quiet=True)


def test_code_of_a_model_runs_only_if_somebody_says_so(block: Recipes, tmp_path: Path) -> None:
    asked = block(GOOD + "\nprint('it ran')\n")
    train(asked, tmp_path / "run", quiet=True)
    assert isinstance(asked.source, BlockSource)
    TRUSTED.discard(asked.source.sha256)
    mark_of(asked.source).unlink()
    block_of.cache_clear()
    with pytest.raises(ValueError, match="read that code, and if you trust it, add --trust-remote-code"):
        open_model(tmp_path / "run")
    assert type(open_model(tmp_path / "run", trust_remote_code=True).model) is SplitstepBlockForCausalLM


ELSEWHERE = """
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained({0!r}, trust_remote_code=True)
assert torch.equal(model(input_ids=torch.arange(20)[None]).logits, torch.load({0!r} + "/logits.pt"))
"""


def test_a_saved_network_opens_here_and_in_a_program_that_knows_transformers_alone(
    block: Recipes, tmp_path: Path
) -> None:
    asked, folder = block(), tmp_path / "model"
    model = maker(asked, asked.load_task())().eval()
    model.save_pretrained(folder)
    loaded, logits = SplitstepBlockForCausalLM.from_pretrained(folder), model(input_ids=torch.arange(20)[None]).logits
    assert torch.equal(loaded(input_ids=torch.arange(20)[None]).logits, logits)
    assert float(loaded.layers[1].scale) == 0.5, "a buffer that is not saved is made again"
    torch.save(logits, folder / "logits.pt")
    caches = {"SPLITSTEP_CACHE": str(tmp_path / "other"), "HF_MODULES_CACHE": str(tmp_path / "modules")}
    told = [sys.executable, "-c", ELSEWHERE.format(str(folder))]
    done = subprocess.run(told, env={**os.environ, **caches}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


NOT_CAUSAL = "does not predict the next token: name that of a causal model"
REFUSED: dict[str, tuple[Any, str]] = {  # a block or a config, and what is said
    "no function": (GOOD, "mine.py defines no blok: did you mean"),
    "not Python": ("def block(:", "mine.py, line 1 is not Python: "),
    "fails": (HEAD + "block = lambda width, heads, layer: 1 / 0", r"block\(32, 4, 0\) fails \(ZeroDivision"),
    "no module": (HEAD + "def block(width, heads, layer): return 3", "mine.py:block returns a int: return a"),
    "leaves": ("raise SystemExit(0)\n" + GOOD, "mine.py does not run .SystemExit"),
    "another import": ("import nosuch\n" + GOOD, "mine.py does not run .*No module named 'nosuch'"),
    "shape": (
        HEAD + "def block(width, heads, layer): return nn.Linear(width, width + 1)",
        r"mine.py:block: a layer returns \[1, 24, 33\] for states \[1, 24, 32\]: return new states of the same shape",
    ),
    "tuple": (
        HEAD + "class L(nn.Identity):\n    def forward(self, x): return x, x\nblock = lambda width, heads, layer: L()",
        r"a layer returns a tuple for states \[1, 24, 32\]",
    ),
    "fails in a pass": (
        GOOD.replace("def forward(self, x):", "def forward(self, x):\n        x = x @ torch.ones(3, 3)"),
        r"^mine.py:block fails in a pass over 24 tokens .*: repair it$",
    ),
    "BERT": (BertConfig(), NOT_CAUSAL),
    "T5": (T5Config(), NOT_CAUSAL),
    "a classifier": (llama(architectures=["LlamaForSequenceClassification"]), NOT_CAUSAL),
    "unknown": (
        PretrainedConfig(model_type="nosuch", auto_map={"AutoConfig": "evil.Config"}),
        "a type that the installed transformers does not know",
    ),  # never fetched
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_network_that_is_wrong_is_refused_in_one_line(case: str, block: Recipes, configured: Recipes) -> None:
    given, message = REFUSED[case]

    def act(what: Any) -> None:
        name = "blok" if case == "no function" else "block"
        asked = block(given, name=name) if isinstance(given, str) else configured(given)
        what(asked, asked.load_task())

    for what in (cost_of, check_network) if case == "fails in a pass" else (cost_of,):
        with pytest.raises(ValueError, match=message) as raised:
            act(what)
        assert "\n" not in str(raised.value)


def test_a_network_is_tried_before_it_trains(block: Recipes) -> None:
    for text, message in ((GOOD, None), (FUTURE, r"^mine.py:block sees later tokens"), (BATCH_NORM, "training mode")):
        asked = block(text)
        with pytest.raises(ValueError, match=message) if message else nullcontext():
            check_network(asked, asked.load_task())


def test_a_missing_file_and_a_task_without_causal_models_are_refused(recipe: Recipes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*none.py: type FILE.py:NAME"):
        recipe(network("block", str(tmp_path / "none.py:block")))
    with pytest.raises(ValueError, match=r"needs the form of network: \{name: block, file: FILE.py:NAME\}"):
        recipe("network={name: blok, file: x}")
    with pytest.raises(ValueError, match="task digits needs a model of kind image"):
        load_recipe("digits", [network("block", write_block(tmp_path))])


def test_a_config_gets_the_tasks_vocabulary_and_the_recipes_size(recipe: Recipes, tmp_path: Path) -> None:
    file = write_config(tmp_path, llama(num_key_value_heads=8, num_attention_heads=32, attention_dropout=0.1))
    asked = recipe(network("config", file))
    config, changed, dropouts = adapted_config(asked, asked.load_task())
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (32, 2, 4)
    assert (config.num_key_value_heads, config.head_dim) == (1, 8), "a quarter of the heads, as before"
    assert (config.vocab_size, config.max_position_embeddings) == (256, 24)
    assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (None, None, None)
    assert config.tie_word_embeddings
    assert config.intermediate_size == round(11008 * 32 / 4096)
    assert dropouts == {"attention_dropout": 0.1}
    assert changed["vocab_size"] == (32000, 256)
    assert changed["tie_word_embeddings"] == (False, True)
    assert "rms_norm_eps" not in changed


def test_a_config_may_keep_its_size(configured: Recipes) -> None:
    own = llama(hidden_size=48, num_hidden_layers=3, num_attention_heads=6, intermediate_size=100)
    asked = configured(own, kept=":as-is")
    config = adapted_config(asked, asked.load_task()).config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (48, 3, 6)
    assert (config.intermediate_size, config.vocab_size) == (100, 256)


def test_one_value_a_layer_goes_on_as_a_pattern(configured: Recipes) -> None:
    from transformers import Gemma3TextConfig

    own: Any = Gemma3TextConfig(num_hidden_layers=6)
    asked = configured(own, "model.layers=8")
    config = adapted_config(asked, asked.load_task()).config
    assert config.layer_types == [*own.layer_types, *own.layer_types[:2]]


KINDS = (FalconConfig, GPTNeoXConfig, MambaConfig, OPTConfig, PhiConfig, Qwen3MoeConfig, Starcoder2Config)


@pytest.mark.parametrize("config", [*KINDS, DeepseekV3Config], ids=lambda one: one.__name__)
def test_configs_of_many_kinds_fit_the_recipe(config: Any, configured: Recipes) -> None:
    asked = configured(config())
    task = asked.load_task()
    model = maker(asked, task)()
    assert model.get_input_embeddings().weight.shape == (256, 32)
    assert model(input_ids=torch.arange(24)[None], use_cache=False).logits.shape == (1, 24, 256)
    assert cost_of(asked, task).parameters == sum(p.numel() for p in model.parameters())


def test_the_experts_of_a_token_are_counted(configured: Recipes) -> None:
    own = MixtralConfig(num_key_value_heads=32)
    asked = configured(own)
    ffn, length = round(own.intermediate_size * 32 / own.hidden_size), 24
    layer = 4 * 32 * 32 + 8 * 32 + 2 * 3 * 32 * ffn + 2 * length * 32  # attention, router, two experts, scores
    found = cost_of(asked, asked.load_task()).flops
    assert found == pytest.approx(2 * (2 * layer + 32 * 256), abs=length)  # rotary angles are a small product


def test_parameters_are_counted_without_embeddings_and_head(configured: Recipes) -> None:
    asked = configured(gpt2())
    make = maker(asked, asked.load_task())
    found, model = counted(make, 24), make()
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.body == sum(
        p.numel() for p in (*model.transformer.h.parameters(), *model.transformer.ln_f.parameters())
    )
