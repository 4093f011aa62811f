"""Key layers: where the states of student and teacher are compared. Layer l is the state after l layers, l = 1 .. N."""

from __future__ import annotations

from math import ceil

WORDS, PHRASES = (1 / 2,), (3 / 4, 1.0)
"""Depths of MTA's key layers. Its GPT-2 of 12 layers has words at 6 and phrases at 9 and 12; the fractions are ours."""


def at_depths(depths: tuple[float, ...], layers: int) -> tuple[int, ...]:
    """The layers at these fractions of the depth, rounded up, each once."""
    return tuple(dict.fromkeys(ceil(depth * layers) for depth in depths))


def key_layers(given: tuple[int, ...], depths: tuple[float, ...], layers: int) -> tuple[int, ...]:
    """The layers of the student that were asked for, else those at these depths; they must exist."""
    assert layers > 0, "the number of layers is not known"
    wrong = [layer for layer in given if not 1 <= layer <= layers]
    if wrong:
        raise ValueError(f"The student has no layer {wrong[0]}: name layers from 1 to {layers}.")
    return given or at_depths(depths, layers)


def teacher_layer(layer: int, student_layers: int, teacher_layers: int) -> int:
    """The teacher's layer for one of the student's: floor(l N_T / N_S), which is MTA's map."""
    found = layer * teacher_layers // student_layers
    if found < 1:
        raise ValueError(
            f"Layer {layer} of the student's {student_layers} has no match among the teacher's {teacher_layers}: "
            f"name a layer from {ceil(student_layers / teacher_layers)} to {student_layers}."
        )
    return found
