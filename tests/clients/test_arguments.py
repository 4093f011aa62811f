"""Arguments of `forward` mean what they mean in transformers; misspelt ones are refused."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from tiny import EACH, LENGTH, SCHEMES, inputs, labels, left_mask, right_mask, tiny, tokens

from splitstep.models import KINDS

TEXT = ["causal", "masked", "sequence", "translation"]


@pytest.mark.parametrize("kind", list(KINDS))
def test_unknown_arguments_are_refused_with_the_nearest_name(kind: str) -> None:
    model, given = tiny(kind), inputs(kind)
    with pytest.raises(TypeError, match=r"^Splitstep\w+ takes no argument 'labls': did you mean labels\?$"):
        model(**given, labls=labels(kind))
    with pytest.raises(TypeError, match=r"^Splitstep\w+ takes no argument 'zzzzzz': it takes .*labels"):
        model(**given, zzzzzz=None)
    with pytest.raises(ValueError, match=r"^Splitstep\w+ does nothing with head_mask=tensor of shape \[2, 4\]: leave"):
        model(**given, head_mask=torch.ones(2, 4))
    with pytest.raises(ValueError, match=r"does nothing with is_causal=False: leave it out"):
        model(**given, is_causal=False)


@pytest.mark.parametrize("kind", list(KINDS))
def test_names_of_transformers_that_change_nothing_are_let_through(kind: str) -> None:
    model, given = tiny(kind), inputs(kind)
    plain = model(**given).logits
    theirs = {"cache_position": torch.arange(LENGTH), "use_cache": False}
    theirs |= {"head_mask": None, "output_router_logits": False}
    theirs |= {"token_type_ids": torch.ones(3, LENGTH, dtype=torch.long)} if kind != "image" else {}
    torch.testing.assert_close(model(**given, **theirs).logits, plain)


def test_types_of_tokens_are_read_where_a_model_has_them() -> None:
    model, types = tiny("causal", token_types=2), torch.ones(3, LENGTH, dtype=torch.long)
    plain, typed = model(**inputs("causal")).logits, model(**inputs("causal"), token_type_ids=types).logits
    assert not torch.allclose(plain, typed)
    assert torch.equal(plain, model(**inputs("causal"), token_type_ids=0 * types).logits)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_tuple_holds_what_the_record_holds(kind: str) -> None:
    model, given = tiny(kind), inputs(kind) | {"labels": labels(kind)}
    record = model(**given, output_hidden_states=True)
    found = model(**given, output_hidden_states=True, return_dict=False)
    assert isinstance(found, tuple)
    for mine, theirs in zip(found, record.to_tuple(), strict=True):
        torch.testing.assert_close(mine, theirs)
    model.config.return_dict = False
    assert torch.equal(model(**given)[1], record.logits)


@pytest.mark.parametrize(("kind", "scheme"), [one for one in EACH if one[0] in TEXT])
def test_vectors_may_be_given_instead_of_tokens(kind: str, scheme: str) -> None:
    model, given = tiny(kind, scheme, embedding_scale="sqrt"), inputs(kind)
    expected = model(**given).logits
    table = model.get_input_embeddings()
    given["inputs_embeds"] = table(given.pop("input_ids"))
    torch.testing.assert_close(model(**given).logits, expected)
    if kind == "translation":
        given["decoder_inputs_embeds"] = table(given.pop("decoder_input_ids"))
        torch.testing.assert_close(model(**given).logits, expected)
    with pytest.raises(ValueError, match=r"input_ids or inputs_embeds; got both"):
        model(**given, input_ids=tokens())


def test_generation_may_start_from_vectors() -> None:
    model, ids = tiny("causal", "macaron").double(), tokens()
    how: dict[str, Any] = dict(attention_mask=left_mask(), max_new_tokens=5, do_sample=False)
    expected = model.generate(ids, **how)[:, LENGTH:]
    assert torch.equal(model.generate(inputs_embeds=model.get_input_embeddings()(ids), **how), expected)


@pytest.mark.parametrize("form", ["bool", "whole", "additive"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_mask_of_four_dimensions_is_taken_as_it_is(scheme: str, form: str) -> None:
    """The causal and padding masks written out give what the short mask gives; another mask gives something else."""
    for kind, short in (("causal", left_mask()), ("masked", right_mask())):
        model, ids = tiny(kind, scheme), tokens()
        seen = short.bool()[:, None, None, :].expand(3, 1, LENGTH, LENGTH)
        seen = seen.tril() if kind == "causal" else seen
        positions = (short.cumsum(1) - 1).clamp(min=0)
        added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
        mask = {"bool": seen, "whole": seen.long(), "additive": added}[form]
        expected, found = model(ids, short).logits, model(ids, mask, position_ids=positions).logits
        torch.testing.assert_close(found[short > 0], expected[short > 0], atol=1e-4, rtol=1e-4)
        alone = torch.eye(LENGTH).bool()[None, None]
        assert not torch.allclose(model(ids, alone, position_ids=positions).logits, expected)


@pytest.mark.parametrize("scheme", ["lie", "strang-midpoint"])
def test_logits_are_kept_by_number_or_by_index(scheme: str) -> None:
    model, given = tiny("causal", scheme), inputs("causal")
    whole = model(**given).logits
    torch.testing.assert_close(model(**given, logits_to_keep=2).logits, whole[:, -2:])
    index = torch.tensor([1, 4])
    torch.testing.assert_close(model(**given, logits_to_keep=index).logits, whole[:, index])


@pytest.mark.parametrize(("kind", "scheme"), [*EACH, ("translation", "strang-midpoint")])
def test_attention_weights_come_from_every_evaluation(kind: str, scheme: str) -> None:
    model, given = tiny(kind, scheme), inputs(kind)
    plain, out = model(**given), model(**given, output_attentions=True)
    torch.testing.assert_close(out.logits, plain.logits, atol=1e-4, rtol=1e-4)
    found = out.decoder_attentions if kind == "translation" else out.attentions
    stack = model.decoder.stack if kind == "translation" else model.body.stack if hasattr(model, "body") else None
    stack = model.encoder.body.stack if stack is None else stack
    assert len(found) == 2 * stack.scheme.count("A")
    for weights in found:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=1e-5)
    if kind == "translation":
        assert len(out.cross_attentions) == 2 * stack.scheme.count("C")
        assert len(out.encoder_attentions) == 2 * model.encoder.body.stack.scheme.count("A")
        assert (out.cross_attentions[0][1, ..., 3:] == 0).all()  # padding of the source
    if kind == "causal":
        assert (found[0].triu(1)[0] == 0).all()
    model(**given, labels=labels(kind), output_attentions=True).loss.backward()


@pytest.mark.parametrize("scheme", ["lie", "macaron", "lie-postnorm"])
def test_attention_weights_are_those_that_events_give(scheme: str) -> None:
    """Two ways to the same numbers: the written-out path of the model, and the field evaluated on an event's state."""
    model, ids, events = tiny("causal", scheme), tokens(), list[Any]()
    out = model(ids, output_attentions=True, use_cache=False, observe=events.append)
    seen = [e for e in events if e.move.fields == ("A",)]
    for weights, event in zip(out.attentions, seen, strict=True):
        expected = event.fields["A"].weights(event.t, event.read, event.context._replace(record=None))
        torch.testing.assert_close(weights, expected)
    cache = model(ids).past_key_values
    model(ids[:, :1], past_key_values=cache, observe=events.append)
    with pytest.raises(ValueError, match=r"x holds 1 tokens, the cache 8: .* use_cache=False"):
        model.body.stack.layers[0]["A"].weights(0.0, events[-1].x, events[-1].context)


@pytest.mark.parametrize("scheme", ["lie", "strang-midpoint"])
def test_generate_returns_attention_weights_of_every_step(scheme: str) -> None:
    how = {"max_new_tokens": 3, "do_sample": False, "return_dict_in_generate": True}
    how |= {"output_attentions": True, "output_hidden_states": True}
    model = tiny("causal", scheme)
    out = model.generate(tokens(), attention_mask=left_mask(), **how)
    assert [step[0].shape[-2:] for step in out.attentions] == [(LENGTH, LENGTH), (1, LENGTH + 1), (1, LENGTH + 2)]
    assert all(len(step) == 2 * model.body.stack.scheme.count("A") for step in out.attentions)
    assert all(len(step) == 3 for step in out.hidden_states)
    model = tiny("translation", scheme)
    out = model.generate(tokens(), attention_mask=right_mask(), **how)
    assert len(out.encoder_attentions) == 2 * model.encoder.body.stack.scheme.count("A")
    assert out.cross_attentions[-1][0].shape[-2:] == (1, LENGTH)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_texts_of_a_packed_row_do_not_see_each_other(positions: str) -> None:
    """As in transformers, positions that begin anew begin a text; the collators of trainers pass nothing else."""
    model, ids = tiny("causal", "strang-midpoint", positions=positions), tokens()[:1]
    cuts = [0, 2, LENGTH - 1, LENGTH]
    pieces = [ids[:, a:b] for a, b in pairwise(cuts)]
    restart = torch.cat([torch.arange(piece.shape[1]) for piece in pieces])[None]
    ends = torch.tensor(cuts)
    packed = model(ids, position_ids=restart, use_cache=False, cu_seq_lens_q=ends, max_length_q=LENGTH).logits
    alone = torch.cat([model(piece, use_cache=False).logits for piece in pieces], 1)
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="does nothing with cu_seq_lens_q"):
        model(ids, cu_seq_lens_q=ends)
