"""What somebody may have meant by a verb or an option that there is not."""

from collections.abc import Sequence
from pathlib import Path

from ..hints import entry_meant, exact_schemes
from ..recipes import recipe_names
from ..support.words import did_you_mean

VERBS = {
    **dict.fromkeys(("help", "usage", "man"), "--help"),
    **dict.fromkeys(("run", "fit", "learn", "finetune", "fine-tune", "pretrain"), "train"),
    **dict.fromkeys(("eval", "test", "score", "validate"), "evaluate"),
    **dict.fromkeys(("look", "probe", "analyse", "analyze", "explain", "open"), "inspect"),
    **dict.fromkeys(("sample", "complete", "chat", "write"), "generate"),
    **dict.fromkeys(("bench", "benchmark", "diff", "versus"), "compare"),
    **dict.fromkeys(("info", "check", "env", "gpu", "versions", "system"), "doctor"),
    **dict.fromkeys(("order", "orders", "scheme", "draw"), "schemes"),
    **dict.fromkeys(("list", "ls", "datasets", "data"), "tasks`, `splitstep recipes` or `splitstep schemes"),
    **dict.fromkeys(("plot", "show", "page", "html"), "report"),
}  # what else verbs are called
OPTIONS = {
    "--arms": "--arm",
    "--out": "--output --output-dir --output_dir --save --dir --folder -o",
    "--schemes": "--scheme --model --models",
    "--seeds": "--num-seeds --n-seeds --seed --runs --repeats",
    "--tokens": "--max-tokens --max-new-tokens --length",
    "--task": "--dataset",
    "--engine local=": "--workers --jobs --processes -j",
    "--plan": "--dry-run --estimate",
    "--prompt": "--text --input",
    "--text": "--prompt --file --input",
    "--device cuda": "--gpu --cuda",
    "--device cpu": "--cpu",
}  # what else options are called
RECIPES = ("train", "compare", "ablate", "converge", "distil", "compare glue", "compare distil")
NAMED = ("--model", "--recipe", "--config", "--task", "--run", "--checkpoint")  # what stands as a verb's first word


def verb_meant(word: str, verbs: Sequence[str]) -> str:
    """The verb of another name, or of a recipe or a scheme that stands alone; else the nearest verb."""
    if word in recipe_names() or Path(word).suffix in (".yaml", ".yml"):
        return f"Did you mean `splitstep train {word}`?"
    if known := exact_schemes(word):
        return f"Did you mean `splitstep schemes {known.replace(',', ' ')}`?"
    if verb := VERBS.get(word.lower()):
        return f"Did you mean `splitstep {verb}`?"
    return did_you_mean(word, verbs)


def value_after(option: str, words: Sequence[str]) -> str | None:
    """The value that was typed after an option, or after its equals sign."""
    for word, after in zip(words, [*words[1:], "-"], strict=True):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option:
            return None if after.startswith("-") else after
    return None


def option_meant(option: str, value: str | None, verb: str, options: Sequence[str]) -> str:
    """The option of this verb that means the same, or the entry of a recipe, or the first word; else the nearest."""
    same = [one for one, others in OPTIONS.items() if option in others.split() and one.split()[0] in options]
    if same:
        blank = "" if " " in same[0] else " "
        return f"Did you mean {same[0]}{blank}{value or ''}".rstrip() + "?"
    if option in NAMED and not (option == "--model" and verb in RECIPES):
        return f"Type it as the first word: splitstep {verb} {value or 'NAME'}."
    if verb in RECIPES and (meant := entry_meant(option, value)):
        return f"Entries of a recipe have no dashes: {meant}" if meant.endswith("?") else f"{meant}."
    return did_you_mean(option, [*options, "--help"])
