"""Folders and zips of images: levels, names, sizes, colours, the cache, and one sentence for every mistake."""

import io
import logging
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_files import folder_of, image, put, zipped

from motet.cli import main
from motet.data import DataSettings, build, default_net
from motet.data.readers import image_files
from motet.data.readers.raw import RawData
from motet.data.sources import load
from motet.errors import MotetError

PETS = {
    "cat/a.png": image(value=1),
    "cat/b.png": image(value=2),
    "dog/a.png": image(value=3),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "motet" / "images"


def read(path: Path, **choices: Any) -> RawData:
    return load(str(path), **choices)


def refusal(path: Path | str, **choices: Any) -> str:
    with pytest.raises(MotetError) as error:
        load(str(path), **choices)
    assert "\n" not in str(error.value) and "accepted" in str(error.value)
    return str(error.value)


def values(raw: RawData) -> list[int]:
    """The value of each image, away from its dark corner."""
    return [int(value) for value in raw.x[:, -1, -1, 0]]


@pytest.mark.parametrize("packed", [False, True])
def test_class_and_file(tmp_path: Path, packed: bool) -> None:
    path = zipped(tmp_path / "pets.zip", PETS) if packed else folder_of(tmp_path / "pets", PETS)
    raw = read(path)
    assert (raw.kind, raw.x.dtype, raw.x.shape, raw.classes, raw.net) == ("image", np.uint8, (3, 8, 8, 3), 2, "mlp")
    assert (raw.class_names, raw.y.tolist(), values(raw)) == (("cat", "dog"), [0, 0, 1], [1, 2, 3])
    assert raw.x[:, 0, 0].max() == 0, "the corner is where it was"
    assert raw.client is None and raw.domain is None and raw.notes == ()
    assert default_net(str(path)) == "mlp", "too small for two convolutions"
    assert default_net(str(path), size=16) == default_net(str(path), resize=28) == "cnn4"


def level(*tops: str) -> dict[str, bytes]:
    return {f"{top}/{name}": content for top in tops for name, content in PETS.items()}


def test_levels_are_clients_unless_they_are_said_to_be_domains(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "pets", level("Bern", "Zürich"))
    raw = read(path)
    assert (raw.client_names, raw.domain) == (("Bern", "Zürich"), None)
    assert raw.client is not None and raw.client.tolist() == [0, 0, 0, 1, 1, 1]
    assert raw.notes == ("folders were read as client/class; data.levels can say otherwise",)
    raw = read(path, levels="domain/class")
    assert (raw.domain_names, raw.client, raw.notes) == (("Bern", "Zürich"), None, ())
    raw = read(folder_of(tmp_path / "deep", level("photo/ann", "photo/bob", "sketch/ann")))
    assert raw.domain_names == ("photo", "sketch")
    assert raw.client_names == ("photo/ann", "photo/bob", "sketch/ann"), "one Ann is not the other"
    raw = read(folder_of(tmp_path / "split", level("train", "test")))
    assert raw.split is not None and raw.split.tolist() == [1, 1, 1, 0, 0, 0]
    assert raw.client is None
    raw = read(folder_of(tmp_path / "split", {}), levels="client/class")
    assert (raw.client_names, raw.split) == (("test", "train"), None)


def test_a_folder_around_all_is_passed_over(tmp_path: Path) -> None:
    path = zipped(tmp_path / "pets.zip", {f"pets/{name}": content for name, content in level("a", "b").items()})
    raw = read(path, levels="domain/class")
    assert raw.domain_names == ("a", "b")
    assert "the one folder around all, 'pets', was passed over" in raw.notes
    only = folder_of(tmp_path / "one", level("Bern"))
    assert read(only).client is None
    assert read(only, levels="client/class").client_names == ("Bern",)


def test_sizes(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "pets", PETS | {"dog/b.png": image((6, 10), value=7)})
    raw = read(path)
    assert raw.x.shape == (4, 8, 8, 3)
    assert raw.notes == (
        "1 images were resized to 8x8 pixels, which is the size of the first; data.size can say otherwise",
    )
    assert read(path, size=5).x.shape == (4, 5, 5, 3)
    assert read(path, size=5).notes == ("4 images were resized to 5x5 pixels, as data.size says",)
    wide = folder_of(tmp_path / "wide", {"a/1.png": image((6, 10)), "b/1.png": image((6, 10))})
    assert read(wide).x.shape == (2, 6, 10, 3)


def test_colours(tmp_path: Path) -> None:
    grey = {"cat/a.png": image(mode="L", value=1), "dog/a.png": image(mode="L", value=9)}
    assert read(folder_of(tmp_path / "grey", grey)).x.shape == (2, 8, 8, 1)
    assert read(tmp_path / "grey", color="rgb").x.shape == (2, 8, 8, 3)
    mixed = read(folder_of(tmp_path / "mixed", grey | {"dog/b.png": image(value=5)}))
    assert mixed.x.shape == (3, 8, 8, 3)
    assert mixed.x[:, -1, -1].tolist() == [[1] * 3, [9] * 3, [5] * 3], "grey ones before a colour are not lost"
    assert read(tmp_path / "mixed", color="grey").x.shape == (3, 8, 8, 1)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM"])
def test_kinds_of_files(tmp_path: Path, kind: str) -> None:
    suffix = {"JPEG": "JPG", "TIFF": "tif"}.get(kind, kind.lower())
    files = {f"{name}/1.{suffix}": image(mode="L", value=90 + 100 * n, kind=kind) for n, name in enumerate("ab")}
    raw = read(folder_of(tmp_path / "x", files), color="grey")
    assert np.abs(np.array(values(raw)) - [90, 190]).max() <= 9


def test_hidden_and_other_files_are_no_data(tmp_path: Path) -> None:
    extra = {
        ".git/x.png": b"",
        "cat/.a.png": b"",
        "__MACOSX/cat/a.png": b"",
        "cat/Thumbs.db": b"",
        "notes/readme.txt": b"",
    }
    assert read(folder_of(tmp_path / "pets", PETS | extra)).notes == ("1 files that are no images were passed over",)
    assert len(read(zipped(tmp_path / "pets.zip", PETS | extra)).y) == 3


def test_broken_files_are_named_and_left_out_only_if_told_to(tmp_path: Path) -> None:
    whole = image((40, 40))
    path = folder_of(tmp_path / "pets", PETS | {"dog/b.png": b"not an image", "dog/c.png": whole[: len(whole) // 2]})
    assert "'dog/b.png' cannot be read as an image" in refusal(path)
    assert "data.skip_broken = true" in refusal(path)
    raw = read(path, skip_broken=True)
    assert (raw.y.tolist(), values(raw)) == ([0, 0, 1], [1, 2, 3])
    assert raw.notes == ("2 broken files were left out: 'dog/b.png', 'dog/c.png'",)
    bad = folder_of(tmp_path / "bad", {"a/1.png": b"", "b/1.png": b"x"})
    assert "holds no image that can be read" in refusal(bad, skip_broken=True)


def test_an_image_of_sixteen_bits_is_refused(tmp_path: Path) -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(out, "PNG")
    path = folder_of(tmp_path / "x", {"a/1.png": out.getvalue(), "b/1.png": image()})
    assert "its pixels are of kind I;16" in refusal(path)


def bomb() -> bytes:
    """A PNG of some hundred bytes that says it has 20,000 x 20,000 pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def test_bombs_are_broken_files(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "pets", PETS | {"dog/z.png": bomb()})
    assert "'dog/z.png' cannot be read as an image" in refusal(path)
    assert len(read(path, skip_broken=True).y) == 3


def test_formats_that_run_programs_are_not_tried(tmp_path: Path) -> None:
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(touched) print\n"
    assert "cannot be read as an image" in refusal(folder_of(tmp_path / "x", PETS | {"cat/a.png": script}))


def test_links_are_refused(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "pets", PETS)
    secret = put(tmp_path / "secret.png", image())
    os.symlink(secret, path / "cat" / "link.png")
    assert "link.png is a link" in refusal(path)
    (path / "cat" / "link.png").unlink()
    os.symlink(tmp_path, path / "mice")
    assert "mice is a link" in refusal(path)
    (path / "mice").unlink()
    os.symlink(path, tmp_path / "elsewhere")
    assert len(read(tmp_path / "elsewhere").y) == 3, "the folder itself may be one"
    os.mkfifo(path / "cat" / "pipe.png")
    assert len(read(path).y) == 3, "and a pipe is not waited for"


def test_zips_that_lie(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    assert "holds the name '../cat/a.png'" in refusal(zipped(path, {"../cat/a.png": image()}))
    assert "holds the name '/cat/a.png'" in refusal(zipped(path, {"/cat/a.png": image()}))
    put(path, b"PK no zip")
    assert f"{path}: cannot be read" in refusal(path)
    whole = zipped(path, PETS).read_bytes()
    put(path, whole[:-40])
    assert f"{path}: cannot be read" in refusal(path)
    put(path, whole.replace(PETS["cat/a.png"][40:60], bytes(20), 1))
    assert "'cat/a.png' cannot be read as an image (Bad CRC-32" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("cat/a.png")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("dog/a.png", image())
    assert "is a link" in refusal(path)
    with pytest.warns(UserWarning), zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cat/a.png", image())
        archive.writestr("cat/a.png", image())
    assert "'cat/a.png' twice" in refusal(path)
    assert "no such file" in refusal(tmp_path / "none.zip")


def test_folders_that_fit_no_levels(tmp_path: Path) -> None:
    assert "lie in differently many folders" in refusal(folder_of(tmp_path / "a", PETS | {"x/cat/c.png": image()}))
    assert "holds only class 'cat'" in refusal(folder_of(tmp_path / "b", {"cat/1.png": image()}))
    assert "there is no folder around the files" in refusal(folder_of(tmp_path / "c", {"1.png": image()}))
    assert "there are 4 folders" in refusal(folder_of(tmp_path / "d", level("a/b/c", "d/e/f")))
    sentence = refusal(folder_of(tmp_path / "e", PETS), levels="client/class")
    assert "data.levels is 'client/class', but there is one folder around the files; accepted: class" in sentence
    assert "holds no image" in refusal(folder_of(tmp_path / "f", {"cat/readme.txt": b"", "dog/x": b""}))


def test_names_of_any_kind(tmp_path: Path) -> None:
    files = {"[red]cat/1.png": image(), "dög\x1b[31m/1.png": image()}
    raw = read(folder_of(tmp_path / "x", files))
    assert raw.class_names == ("[red]cat", "dög\x1b[31m")
    os.makedirs(os.fsencode(tmp_path / "x") + b"/\xff\xfe")
    (tmp_path / "x" / os.fsdecode(b"\xff\xfe") / "1.png").write_bytes(image())
    "".join(read(tmp_path / "x").class_names).encode()


# ---------------------------------------------------------------- the cache


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files, "LEAST_CACHED", 2)


def never(*_: object) -> None:
    raise AssertionError("an image was read again")


@pytest.mark.usefixtures("small_cache")
def test_what_was_read_once_comes_from_the_cache(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder_of(tmp_path / "pets", PETS | {"dog/b.png": b"broken", "dog/c.png": image((4, 4), value=8)})
    first = read(path, skip_broken=True)
    (cached,) = own_cache.iterdir()
    assert cached.suffix == ".npz"
    with monkeypatch.context() as context:
        context.setattr(image_files, "open_image", never)
        again = read(path, skip_broken=True)
    assert again.x.tobytes() == first.x.tobytes()
    assert (again.y.tolist(), again.notes) == (first.y.tolist(), first.notes)
    put(path / "cat" / "a.png", image(value=77))
    assert values(read(path, skip_broken=True))[0] == 77, "a changed file is read again"
    assert read(path, skip_broken=True, size=4).x.shape[1] == 4
    assert read(path, skip_broken=True, color="grey").x.shape[3] == 1
    assert refusal(path)


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_a_damaged_cache_is_read_over(tmp_path: Path, own_cache: Path, content: bytes | None) -> None:
    path = folder_of(tmp_path / "pets", PETS)
    read(path)
    (cached,) = own_cache.iterdir()
    cached.write_bytes(cached.read_bytes()[:-100] if content is None else content)
    assert values(read(path)) == [1, 2, 3]
    assert values(read(path)) == [1, 2, 3]


@pytest.mark.usefixtures("small_cache")
def test_no_cache_is_no_reason_to_stop(tmp_path: Path, own_cache: Path) -> None:
    put(own_cache.parent, b"a file where the folder belongs")
    assert values(read(folder_of(tmp_path / "pets", PETS))) == [1, 2, 3]


# ---------------------------------------------------------------- from the command line


def clinics(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    files = {}
    for client in ("Bern", "Zürich"):
        for label, name in enumerate(("healthy", "ill")):
            for number in range(20):
                value = int(rng.integers(40) + 150 * label)
                files[f"{client}/{name}/{number}.png"] = image((8, 8), mode="L", value=value)
    return folder_of(folder, files)


def test_a_folder_runs_as_natural_clients(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = clinics(tmp_path / "clinics")
    federation = build(DataSettings(name=str(path), partition="natural"), seed=0)
    assert [client.name for client in federation.clients] == ["Bern", "Zürich"]
    assert main(["data", "show", str(path), "--partition", "natural"]) == 0
    shown = capfd.readouterr().out
    assert all(word in shown for word in ("Bern", "Zürich", "healthy", "ill", "client/class"))
    words = ["--data", str(path), "--partition", "natural", "--rounds", "2", "--set", "engine.name=inline"]
    assert main(["run", *words, "--net", "mlp", "--out", str(tmp_path / "run")]) == 0
    put(path / "Bern" / "ill" / "x.png", b"")
    assert main(["run", *words, "--out", str(tmp_path / "other")]) == 2
    assert "Bern/ill/x.png" in capfd.readouterr().err


def test_pillow_says_nothing_of_broken_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as outside pytest, which listens to everything
    broken = bytearray(image(kind="TIFF"))
    at = broken.index(struct.pack("<HHI", 277, 3, 1))  # the tag of samples per pixel
    broken[at + 8 : at + 10] = b"\xff\x69"
    path = folder_of(tmp_path / "x", {"a/1.tif": bytes(broken), "b/1.tif": image(kind="TIFF")})
    assert "'a/1.tif' cannot be read as an image" in refusal(path)
    assert capfd.readouterr() == ("", "")
