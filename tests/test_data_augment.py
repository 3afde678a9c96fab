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
from motet.data.image_changes import flip_crop, random_resized_crop
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


# ---------------------------------------------------------------- random resized crops


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_random_resized_crop_is_a_stretched_part_of_the_image(dtype: torch.dtype) -> None:
    """Of an image that rises from left to right and from top to bottom, what comes out tells where it was taken."""
    side = 32
    ramp = 7 * torch.arange(side, dtype=torch.float32)
    image = torch.stack([ramp.expand(side, side), ramp[:, None].expand(side, side)], -1).to(dtype)
    out = random_resized_crop(image.expand(3000, -1, -1, -1), rng(), least=0.25)
    assert (out.shape, out.dtype, out.is_contiguous()) == ((3000, side, side, 2), dtype, True)
    middle = out[:, 8:24, 8:24].float() / 7  # away from the border, where the image is repeated
    width = (middle[:, :, -1, 0] - middle[:, :, 0, 0]).mean(1) / 15
    height = (middle[:, -1, :, 1] - middle[:, 0, :, 1]).mean(1) / 15
    assert abs(float((width < 0).double().mean()) - 0.5) < 0.05, "half of them are mirrored"
    width = width.abs()
    slack = 0.05 if dtype == torch.uint8 else 0.01
    assert float(width.max()) <= 1 + slack and float(height.min()) > 0
    area, aspect = width * height, width / height
    assert float(area.min()) > 0.25 * (3 / 4) - slack and float(area.max()) <= 1 + slack
    assert float(aspect.min()) > 3 / 4 - slack and float(aspect.max()) < 4 / 3 + slack
    inside = (width < 0.95) & (height < 0.95)
    assert abs(float(area[inside].mean()) - (0.25 + float(area[inside].max())) / 2) < 0.06, "uniform in the area"
    left = out.float()[:, :, :, 0].amin((1, 2)) / (7 * side)
    assert float(left.min()) < 0.05 and float(left.max()) > 0.4, "from everywhere"


def test_the_whole_image_is_the_whole_image() -> None:
    images = torch.randint(0, 256, (40, 9, 9, 3), generator=rng(), dtype=torch.uint8)
    out = random_resized_crop(images, rng(1), least=1.0)
    widths = [torch.equal(a, b) or torch.equal(a, b.flip(1)) for a, b in zip(out, images, strict=True)]
    assert not all(widths), "its shape still varies"
    stream = rng(3)
    pieces = torch.cat([random_resized_crop(part, stream) for part in images.split(7)])
    assert torch.equal(pieces, random_resized_crop(images, rng(3))), "five draws per image, whatever the batch"


def test_it_is_asked_for_by_its_name() -> None:
    data = DataSettings(name="digits", augment="random-resized-crop", augment_scale=0.5)
    augment = build(data, 0).prepare.augment
    assert augment is not None
    images = torch.randint(0, 256, (4, 8, 8, 1), generator=rng(), dtype=torch.uint8)
    assert torch.equal(augment(images, rng(2)), random_resized_crop(images, rng(2), least=0.5))
