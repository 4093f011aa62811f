"""Teachers: where a student finds what its teacher shows, which may be a model beside it or a cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import final

import numpy as np
import torch

from ..flows.keys import Key
from ..tasks import Batch
from .records import Outputs
from .subject import Subject
from .texts import teacher_inputs


class Teacher(ABC):
    """Where a student finds what its teacher shows."""

    @abstractmethod
    def batch(self, rows: np.ndarray, width: int) -> Batch:
        """What has to be in a batch of these training rows, padded to this width."""

    @abstractmethod
    def show(self, batch: Batch) -> Outputs:
        """What the teacher shows of a batch."""


@final
class NoTeacher(Teacher):
    """The teacher of a method that does not ask one, such as `ce`."""

    def batch(self, rows: np.ndarray, width: int) -> Batch:
        return {}

    def show(self, batch: Batch) -> Outputs:
        return Outputs(teacher_inputs(batch)[1].bool())


@final
class OnlineTeacher(Teacher):
    """A teacher that is kept beside the student, and reads each batch again. It moves to the batch's device."""

    def __init__(self, subject: Subject, wanted: Collection[Key]) -> None:
        self.subject, self.wanted = subject, wanted

    def batch(self, rows: np.ndarray, width: int) -> Batch:
        return {}

    @torch.no_grad()
    def show(self, batch: Batch) -> Outputs:
        ids, mask = teacher_inputs(batch)
        if self.subject.model.device != ids.device:
            self.subject.model.to(ids.device)
        return self.subject.show(ids, mask, self.wanted)
