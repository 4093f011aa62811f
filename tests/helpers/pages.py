"""Pages in a real browser, and charts of particles and spectra that nobody computed."""

import cmath
import math
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from splitstep.report.charts import Axis, ComplexPlane, ParticleChart, Particles, SliderChart

WORDS = ("The", " tokens", " of", " a", " text", " move", " through", " depth", " and", " gather", " in", " clusters")


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium of the system, driven by playwright; CI must have both."""
    if not os.environ.get("CI"):
        pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        assert not os.environ.get("CI"), "CI must install chromium: apt-get install chromium"
        pytest.skip("there is no chromium here")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
                  "--disable-background-networking", "--disable-component-update"],
        )  # fmt: skip
        yield browser
        browser.close()


def visit(browser: Any, file: Path, width: int, colours: str = "light", **context: Any) -> tuple[Any, list[str]]:
    """The open page, and everything that should not have happened; nothing outside of the file can be loaded."""
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=colours, **context)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    page.on(
        "request",
        lambda r: None if r.url.startswith(("data:", "blob:", file.as_uri())) else wrong.append(f"request: {r.url}"),
    )
    page.route("http*://**", lambda route: route.abort())
    page.goto(file.as_uri())
    return page, wrong


def drifting(name: str, tokens: Sequence[str], states: int, seed: int) -> Particles:
    """Tokens that gather in three places as depth grows."""
    chance = random.Random(seed)
    start = [complex(chance.gauss(0, 2), chance.gauss(0, 2)) for _ in tokens]
    centres = [4 * cmath.exp(2j * math.pi * (k / 3 + seed / 10)) for k in range(3)]
    home = [min(range(3), key=lambda k: abs(z - centres[k])) for z in start]
    x, y, cluster, norm = [], [], [], []
    for s in range(states):
        share = s / max(states - 1, 1)
        near = [share**1.5 for _ in tokens]
        turned = [
            (z * (1 - p) + centres[k] * p + 0.3 * z * p) * cmath.exp(0.7j * share)
            for z, k, p in zip(start, home, near, strict=True)
        ]
        x.append([z.real for z in turned])
        y.append([z.imag for z in turned])
        joined = [share > 0.35 + 0.5 * ((7 * i) % 10) / 10 for i in range(len(tokens))]
        cluster.append([home[i] if joined[i] else 100 + i for i in range(len(tokens))])
        norm.append([1.0 + abs(z) * (1 + 5 * share) for z in turned])
    return Particles(name, tokens, x, y, cluster, norm)


def particle_chart(tokens: Sequence[str] = WORDS * 3, states: int = 13, texts: int = 2) -> ParticleChart:
    names = ["embedding", *(f"layer {k}" for k in range(1, states))]
    return ParticleChart(
        "Tokens through depth", Axis("first direction"), Axis("second direction"),
        [(name, float(t)) for t, name in enumerate(names)],
        [drifting(f"text {i + 1}", tokens, states, i) for i in range(texts)], name="particles",
    )  # fmt: skip


def spectra(layers: int = 6, size: int = 60) -> SliderChart:
    """Spectra that turn real with depth, and those of a null model, which do not."""
    chance = random.Random(0)

    def spectrum(imaginary: float) -> list[complex]:
        half = [complex(chance.gauss(0.8, 0.3), imaginary * chance.gauss(0, 0.5)) for _ in range(size // 2)]
        return [*half, *(z.conjugate() for z in half)]

    charts = [
        ComplexPlane(
            f"layer {k + 1}", [("trained", spectrum(1 - k / layers)), ("random weights", spectrum(0.5))],
            muted=["random weights"],
        )
        for k in range(layers)
    ]  # fmt: skip
    return SliderChart("Eigenvalues of the layer's Jacobian", "layer", charts, name="spectra")
