"""Augmentation: what it does to images, when it acts, and whose randomness it takes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from running import exchange

from motet.config.data_section import PAD
from motet.config.experiment import resolve
from motet.config.sections import AdaptSettings, LocalSettings
from motet.data import DataSettings, Federation, build
from motet.data.image_changes import flip_crop
from motet.errors import MotetError
from motet.server.assembly import assemble
from motet.training.client import Client, RunContext
from motet.training.randomness import generator


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def variants(image: torch.Tensor) -> list[torch.Tensor]:
    """All that one image can become: mirrored or not, moved by up to PAD each way, black around it."""
    height, width, _ = image.shape
    found = []
    for picture in (image, image.flip(1)):
        for down in range(-PAD, PAD + 1):
            for right in range(-PAD, PAD + 1):
                moved = torch.zeros_like(picture)
                rows = range(max(0, -down), min(height, height - down))
                columns = range(max(0, -right), min(width, width - right))
                moved[rows.start : rows.stop, columns.start : columns.stop] = picture[
                    rows.start + down : rows.stop + down, columns.start + right : columns.stop + right
                ]
                found.append(moved)
    return found


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_each_image_becomes_one_of_its_162_variants(dtype: torch.dtype) -> None:
    image = torch.arange(1, 6 * 9 * 3 + 1, dtype=torch.int64).reshape(6, 9, 3).to(dtype)
    out = flip_crop(image.expand(4000, -1, -1, -1), rng())
    assert (out.shape, out.dtype, out.is_contiguous()) == ((4000, 6, 9, 3), dtype, True)
    met = torch.stack([(out == variant).flatten(1).all(1) for variant in variants(image)])
    assert met.any(0).all(), "nothing else comes out"
    assert met.any(1).all(), "and every variant does"
    mirrored = met[met.shape[0] // 2 :].any(0).double().mean()
    assert abs(float(mirrored) - 0.5) < 0.05


def test_one_draw_per_image_whatever_the_batch() -> None:
    images = torch.randint(0, 256, (50, 8, 8, 1), dtype=torch.uint8)
    stream, before = rng(5), images.clone()
    pieces = torch.cat([flip_crop(part, stream) for part in images.split(7)])
    assert torch.equal(pieces, flip_crop(images, rng(5)))
    assert torch.equal(images, before)


def digits(**choices: Any) -> Federation:
    return build(DataSettings.model_validate({"clients": 5, "partition": "iid", **choices}), seed=0)


def test_only_batches_with_a_generator_vary() -> None:
    plain, varied = digits().clients[0].train, digits(augment="flip-crop").clients[0].train
    rows = torch.arange(20)
    assert not plain.augments and varied.augments
    assert torch.equal(plain.batch(rows)[0], varied.batch(rows)[0])
    assert torch.equal(plain.batch(rows, rng())[0], plain.batch(rows)[0])
    assert torch.equal(next(varied.all_batches(20))[0], plain.batch(rows)[0]), "never in evaluation"
    x, y = varied.batch(rows, rng())
    assert not torch.equal(x, plain.batch(rows)[0])
    assert torch.equal(x, varied.prepare(flip_crop(varied.x[:20], rng())))
    assert torch.equal(y, plain.y[:20])
    assert x.is_contiguous(memory_format=torch.channels_last) or x.shape[1] == 1


def test_parts_and_copies_vary_too() -> None:
    samples = digits(augment="flip-crop").stored
    assert samples.part(0, 5).augments and samples.take(torch.arange(5)).augments
    assert type(samples).union([samples.part(0, 5), samples.part(5, 9)]).augments


def test_a_client_varies_by_a_stream_of_its_own() -> None:
    def batches(augment: str, round: int = 1) -> list[torch.Tensor]:
        data = digits(augment=augment).clients[2]
        client = Client(data, round, RunContext(10, 7, LocalSettings(epochs=1, batch=16), AdaptSettings()))
        return [x for x, _ in client.descent().batches(data.train)]

    plain, varied = batches("none"), batches("flip-crop")
    data = digits(augment="flip-crop").clients[2].train
    order = torch.randperm(len(data), generator=generator(7, "train", 1, 2))
    expected = data.batch(order, generator(7, "train-augment", 1, 2))[0]
    assert torch.equal(torch.cat(varied), expected), "the order of samples is that of training without it"
    assert torch.equal(torch.cat(plain), data.batch(order)[0])
    assert not torch.equal(torch.cat(batches("flip-crop", round=2)), expected)


def test_no_stream_is_drawn_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    purposes: list[str] = []
    monkeypatch.setattr(
        "motet.training.client.generator", lambda seed, purpose, *rest: purposes.append(purpose) or rng()
    )
    for augment in ("none", "flip-crop"):
        data = digits(augment=augment).clients[0]
        Client(data, 1, RunContext(10, 0, LocalSettings(), AdaptSettings())).descent("ft")
    assert sorted(purposes) == ["ft", "ft", "ft-augment"]


@pytest.mark.parametrize("together", [True, False])
def test_whole_runs_learn_from_varied_images(together: bool) -> None:
    def weights(augment: str) -> torch.Tensor:
        asked = resolve(
            {
                "data": {"augment": augment, "clients": 4, "partition": "iid", "subset": 0.2},
                "local": {"epochs": 1, "batched_clients": together},
                "engine": {"name": "inline"},
                "net": {"name": "mlp"},
            }
        )
        assembly = assemble(asked)
        server = assembly.method.start()
        return assembly.method.aggregate(server, exchange(assembly, server, [0, 1, 2, 3], 1))["w"]

    assert not torch.allclose(weights("none"), weights("flip-crop"), atol=1e-4)
    assert torch.equal(weights("flip-crop"), weights("flip-crop"))


def test_only_images_can_be_flipped(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.zeros((60, 4), np.float32), y=np.arange(60) % 3)
    with pytest.raises(MotetError, match=r"data.augment is for images, and these data are of kind 'vector'; accepted"):
        digits(name=str(tmp_path / "own.npz"), augment="flip-crop")
