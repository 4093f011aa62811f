"""Whose parts sum to the residual stream? The same tiny models, seen by this package and by others.

    python benchmarks/inspect_peers.py --out results/inspect/peers.json

Each tool is asked for the parts of which the last residual state is made: its embedding and what attention and
feed-forward of each layer add. It is right if they sum to the state after the last block, as a hook on that block sees
it, within 1e-5 relative to its length, at the last token. Weights are random, with standard deviations .02 and .2,
because a tool may guess from the numbers. `apart` says whether attention and feed-forward are parts of their own; one
that gives whole layers only is right and not apart. A tool that refuses a model says so; that is not wrong. InterpKit
takes a block for a residual one if what it adds is shorter than .7 of its output, which random weights may not satisfy.

InterpKit: `decompose`. TransformerLens: `decompose_resid` of a bridge. nnterp: the input of the first layer, and
`attentions_output` and `mlps_output` of all, copied before the model can write into them; it does not claim that these
sum to anything.

The tools want different packages, so run the script once in an environment of each (with the same transformers): a tool
that cannot be imported keeps the row that the file has.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers"))
from zoo import tiny

STDS, NEAR, TOKENS = (0.02, 0.2), 1e-5, 8
BLOCKS = {
    "LlamaForCausalLM": "model.layers",
    "MistralForCausalLM": "model.layers",
    "Qwen2ForCausalLM": "model.layers",
    "GPT2LMHeadModel": "transformer.h",
    "OPTForCausalLM": "model.decoder.layers",
    "BloomForCausalLM": "transformer.h",
    "GPTNeoXForCausalLM": "gpt_neox.layers",
    "GPTJForCausalLM": "transformer.h",
    "FalconForCausalLM": "transformer.h",
    "PhiForCausalLM": "model.layers",
    "CohereForCausalLM": "model.layers",
    "Gemma2ForCausalLM": "model.layers",
    "Olmo2ForCausalLM": "model.layers",
    "GraniteForCausalLM": "model.layers",
    "BertForMaskedLM": "bert.encoder.layer",
    "T5ForConditionalGeneration": "decoder.block",
    "ViTForImageClassification": "vit.layers",
}
"""The models, and where their blocks are: the judge must not depend on any tool."""


class Parts(NamedTuple):
    """What a tool says: the parts at the last token, by name."""

    vectors: Mapping[str, Tensor]
    apart: bool

    def total(self) -> Tensor:
        return torch.stack([one.double() for one in self.vectors.values()]).sum(0)


Ask = Callable[[Any, Path, Mapping[str, Tensor]], Parts]


def inputs_of(model: Any) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(3)
    if model.main_input_name == "pixel_values":
        size = model.config.image_size
        return {"pixel_values": torch.randn(1, model.config.num_channels, size, size, generator=random)}
    ids = torch.randint(3, 40, (1, TOKENS), generator=random)
    return {"input_ids": ids, **({"decoder_input_ids": ids.flip(1)} if model.config.is_encoder_decoder else {})}


def made(name: str, std: float, folder: Path) -> Any:
    """The model as a user has it: opened from a folder with a tokenizer. Eager attention is what some tools need."""
    model = tiny(name, std)
    model.save_pretrained(folder)
    if model.main_input_name == "input_ids":
        tokenizer().save_pretrained(folder)
    return type(model).from_pretrained(folder, attn_implementation="eager").eval()


def truth(model: Any, blocks: str) -> Tensor:
    """The state after the last block at the last token."""
    seen: list[Tensor] = []

    def keep(module: Any, args: Any, result: Any) -> None:
        seen.append(result if isinstance(result, Tensor) else result[0])

    with torch.no_grad(), model.get_submodule(blocks)[-1].register_forward_hook(keep):
        model(**inputs_of(model))
    return seen[-1][0, -1].double()


def tokenizer() -> Any:
    """Its words are numbers."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({str(i): i for i in range(40)}, unk_token="2"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="2", pad_token="0", bos_token="1", eos_token="2")


def words(model: Any, folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder) if model.main_input_name == "input_ids" else None


def ours(model: Any, folder: Path, inputs: Mapping[str, Tensor]) -> Parts:
    import splitstep as ss

    flow = ss.opening.load(model, inputs)
    with torch.no_grad():
        x = flow.embed(inputs)
        vectors = {"embed": x[0, -1]}

        def see(event: Any) -> None:
            vectors.update(
                {f"{event.site.step} {event.site.part} {name}": v[0, -1] for name, v in event.increments.items()}
            )

        ss.integrate(flow.scheme, flow.steps, x, flow.context(inputs), see)
    return Parts(vectors, {"A", "F"} <= {name[0] for name in flow.scheme.fields})


def interpkit(model: Any, folder: Path, inputs: Mapping[str, Tensor]) -> Parts:
    import interpkit as kit  # pyright: ignore[reportMissingImports]

    opened = kit.load(model, tokenizer=words(model, folder), device="cpu")
    given: Any = dict(inputs) if len(inputs) > 1 else next(iter(inputs.values()))
    found = opened.decompose(given, position=-1)["components"]
    kinds = {one["type"] for one in found}
    return Parts({f"{one['layer']} {one['name']}": one["vector"].detach() for one in found}, {"attn", "mlp"} <= kinds)


def nnterp(model: Any, folder: Path, inputs: Mapping[str, Tensor]) -> Parts:
    from nnterp import StandardizedTransformer  # pyright: ignore[reportMissingImports]

    opened = StandardizedTransformer(str(folder), device_map="cpu", attn_implementation="eager")
    vectors: dict[str, Any] = {}
    with torch.no_grad(), opened.trace(dict(inputs)):
        for layer in range(opened.num_layers):
            if layer == 0:
                vectors["embed"] = opened.layers_input[0].clone().save()
            vectors[f"{layer} attn"] = opened.attentions_output[layer].clone().save()
            vectors[f"{layer} mlp"] = opened.mlps_output[layer].clone().save()
    return Parts({name: one[0, -1].detach() for name, one in vectors.items()}, True)


def transformer_lens(model: Any, folder: Path, inputs: Mapping[str, Tensor]) -> Parts:
    from transformer_lens.model_bridge import TransformerBridge  # pyright: ignore[reportMissingImports]

    bridge = TransformerBridge.boot_transformers(
        str(folder), hf_model=model, tokenizer=words(model, folder), device="cpu"
    )
    named = {"decoder_input": inputs["decoder_input_ids"]} if len(inputs) > 1 else {}
    with torch.no_grad():
        _, cache = bridge.run_with_cache(inputs[model.main_input_name], **named)
    stack, labels = cache.decompose_resid(return_labels=True)
    apart = any("attn_out" in one for one in labels) and any("mlp_out" in one for one in labels)
    return Parts({label: one[0, -1].detach() for label, one in zip(labels, stack, strict=True)}, apart)


TOOLS: Mapping[str, tuple[str, Ask]] = {
    "splitstep": ("splitstep", ours),
    "InterpKit": ("interpkit", interpkit),
    "TransformerLens": ("transformer_lens", transformer_lens),
    "nnterp": ("nnterp", nnterp),
}
"""The module and the way to ask."""


def judged(ask: Ask, name: str, std: float) -> dict[str, Any]:
    """What a tool says of a model: right, wrong by how much, or refused with its reason."""
    with tempfile.TemporaryDirectory() as folder:
        model = made(name, std, Path(folder))
        wanted = truth(model, BLOCKS[name])
        try:
            parts = ask(model, Path(folder), inputs_of(model))
            total = parts.total()
        except Exception as error:  # whatever other people's code raises
            text = (str(error) or type(error).__name__).replace(folder, "MODEL").strip().splitlines()
            return {"answer": "refused", "why": f"{type(error).__name__}: {text[-1].strip()[:160]}"}
    if total.shape != wanted.shape:
        return {"answer": "wrong", "why": f"its parts have shape {list(total.shape)}, not {list(wanted.shape)}"}
    error = float((total - wanted).norm() / wanted.norm())
    return {"answer": "right" if error <= NEAR else "wrong", "error": float(f"{error:.2g}"), "apart": parts.apart}


def table_of(tool: str) -> dict[str, Any]:
    module, ask = TOOLS[tool]
    try:
        __import__(module)
        of = version(module.replace("_", "-"))
    except Exception as error:
        return {"absent": f"could not be imported: {type(error).__name__}: {str(error).splitlines()[0][:160]}"}
    rows = {name: {str(std): judged(ask, name, std) for std in STDS} for name in BLOCKS}
    both = [[one["answer"] == "right" for one in row.values()] for row in rows.values()]
    apart = [all(one.get("apart", False) for one in row.values()) for row in rows.values()]
    return {
        "version": of,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        **({"nnsight": version("nnsight")} if tool == "nnterp" else {}),
        "right_with_both": sum(map(all, both)),
        "right_and_apart_with_both": sum(all(right) and one for right, one in zip(both, apart, strict=True)),
        "wrong_with_one_or_both": sum(any(one["answer"] == "wrong" for one in row.values()) for row in rows.values()),
        "models": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/inspect/peers.json"))
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    before = json.loads(options.out.read_text())["tools"] if options.out.exists() else {}
    found = {tool: table_of(tool) for tool in options.tools}
    tools = before | {tool: row for tool, row in found.items() if "models" in row or tool not in before}
    document = {
        "tokens": TOKENS,
        "near": NEAR,
        "models": len(BLOCKS),
        "tools": {tool: tools[tool] for tool in TOOLS if tool in tools},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    for tool, row in found.items():
        print(tool, row.get("absent") or {key: value for key, value in row.items() if key != "models"})


if __name__ == "__main__":
    main()
