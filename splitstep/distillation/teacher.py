"""Teachers: where a student finds what its teacher shows, which may be a model beside it or a cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np
import torch

from ..tasks import Batch
from .records import Shown
from .showing import Shower, Wanted
from .texts import teacher_inputs


class Teacher(ABC):
    """Where a student finds what its teacher shows."""

    @abstractmethod
    def batch(self, rows: np.ndarray, width: int) -> Batch:
        """What has to be in a batch of these training rows, padded to this width."""

    @abstractmethod
    def show(self, batch: Batch) -> Shown:
        """What the teacher shows of a batch."""


@final
class NoTeacher(Teacher):
    """The teacher of a method that does not ask one, such as `ce`."""

    def batch(self, rows: np.ndarray, width: int) -> Batch:
        return {}

    def show(self, batch: Batch) -> Shown:
        return Shown(teacher_inputs(batch)[1].bool())


@final
class OnlineTeacher(Teacher):
    """A teacher that is kept beside the student, and reads each batch again. It moves to the batch's device."""

    def __init__(self, shower: Shower, wanted: Wanted) -> None:
        self.shower, self.wanted = shower, wanted

    def batch(self, rows: np.ndarray, width: int) -> Batch:
        return {}

    @torch.no_grad()
    def show(self, batch: Batch) -> Shown:
        ids, mask = teacher_inputs(batch)
        if self.shower.model.device != ids.device:
            self.shower.model.to(ids.device)
        return self.shower.show(ids, mask, self.wanted)
