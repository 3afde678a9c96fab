"""Does a change of the code leave every number alone? Short runs of all methods, as a hash per tensor that they end in.

    python benchmarks/same_numbers.py --out before.json          # with the old code
    python benchmarks/same_numbers.py --against before.json      # with the new: names what differs, exit code 1 if any

Final server states, private states and generic weights of every registered method and of many sums, inline, on digits
with an MLP and on a hundredth of Fashion-MNIST with a CNN. Bits are the same on one kind of processor only, so keep
no file for another machine.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import motet
from motet.methods import METHODS

SUMS = (
    "fedrod(head=linear)",
    "fedrod(loss=meta-bsm)",
    "fedrod(head=linear, p_init=zero)+fedprox",
    "fedrod+pgfed",
    "fedrod+scaffold",
    "fedrod+feddyn",
    "scaffold+dbe",
    "fedprox(mu=0.1)+dbe",
    "feddyn+prbm",
    "pgfed+dbe",
    "pgfedmo(beta=0.2)+bsm",
    "scaffold(eta_g=0.5)+mr",
    "shared-data+bsm",
    "cdt+feddyn",
    "local+bsm",
    "scaffold+ft",
    "fedavg+dbe+lp",
    "pgfed+ft",
    "fedavg(weighting=uniform)+fedprox",
    "fedbasis(joint=true)",
    "fedbasis(warm_start=0, major=false)",
    "superfed-mm(prox=sum_of_norms, lambda_eval=validation)",
    "superfed-lm(local_init=copy_global, start=0)",
    "superfed-lm(local_init=fresh, lr_compensation=false)",
)
DATA = {"clients": 6, "new_clients": 0.17, "val_share": 0.2, "normalize_on": "all"}
SETTINGS: dict[str, dict[str, Any]] = {
    "digits-mlp": {
        "data": {**DATA, "name": "digits", "partition": "dirichlet:0.5", "subset": 0.4},
        "net": {"name": "mlp"},
        "local": {"epochs": 1, "batch": 16, "lr": 0.05},
    },
    "digits-mlp-alone": {
        "data": {**DATA, "name": "digits", "partition": "dirichlet:0.5", "subset": 0.4},
        "net": {"name": "mlp"},
        "local": {"epochs": 1, "batch": 16, "lr": 0.05, "batched_clients": False, "momentum_across_rounds": "persist"},
    },
    "fmnist-cnn": {
        "data": {**DATA, "name": "fmnist", "partition": "dirichlet:0.5", "subset": 0.01, "pool": "all"},
        "net": {"name": "cnn4"},
        "local": {"epochs": 1, "batch": 20, "lr": 0.02},
    },
}
ALIKE = {
    "rounds": {"count": 3, "cohort": 0.5},
    "adapt": {"epochs": 1},
    "engine": {"name": "inline"},
    "scoring": {
        "personal_model": "last_participation",
        "class_weights": "literal",
    },  # every client keeps what it trained
}


def main() -> int:
    """Make a file, or compare with one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the hashes here")
    parser.add_argument("--against", type=Path, help="compare with the hashes of this file")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    asked = parser.parse_args()
    before = json.loads(asked.against.read_text()) if asked.against else None
    names = (
        list(before) if before is not None else [f"{setting} {method}" for setting in SETTINGS for method in methods()]
    )
    found, different = {}, 0
    for name in (n for n in names if asked.only in n):
        began = time.perf_counter()
        found[name] = hashes(*name.split(" ", 1))
        words = f"{time.perf_counter() - began:5.1f} s  {name}"
        if before is not None:
            changes = differences(before[name], found[name])
            different += bool(changes)
            words += f": {'; '.join(changes) or 'the same'}"
        print(words, flush=True)
        if asked.out:
            asked.out.write_text(json.dumps(found, indent=1))
    if before is not None:
        print(f"{different} of {len(found)} cases differ")
    return 1 if different else 0


def methods() -> list[str]:
    """Every registered name, with what it needs beside it, and the sums."""
    alone = [name if entry.kind != "personalization" else f"fedavg+{name}" for name, entry in METHODS.items()]
    return [*alone, *SUMS]


def hashes(setting: str, method: str) -> dict[str, str]:
    """Every tensor that a run of the method ends in, and its figures."""
    chosen = SETTINGS[setting] | ALIKE | {"method": method}
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        try:
            result = motet.run(set=flat(chosen), out=folder)
        except motet.MotetError as error:  # a cohort too small for the method
            return {"refused": str(error)}
        last = max((folder / "checkpoint").glob("*.json"))
        files = json.loads(last.read_text())["files"]
        found = {}
        for role, entry in files.items():
            tensors = load_file(folder / "checkpoint" / entry["file"])
            found |= {f"{role}:{name}": digest(t) for name, t in tensors.items()}
        if (folder / "weights.safetensors").exists():
            generic = load_file(folder / "weights.safetensors")
            found |= {f"generic:{name}": digest(t) for name, t in generic.items()}
        figures = [result.generic.accuracy, result.personal.weighted.personal_models]
        figures += [result.personal.split.personal_models, result.new_clients.before, result.new_clients.after]
    return found | {"figures": json.dumps(figures)}


def digest(t: torch.Tensor) -> str:
    """Of a tensor's bytes, its shape and its type."""
    words = f"{t.dtype} {tuple(t.shape)}".encode()
    return hashlib.sha256(words + t.contiguous().flatten().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Names that are gone, new or changed."""
    changed = [name for name in before if name in now and before[name] != now[name]]
    words = {
        "changed": changed,
        "gone": [n for n in before if n not in now],
        "new": [n for n in now if n not in before],
    }
    return [f"{word}: {', '.join(names[:4])}{' …' if len(names) > 4 else ''}" for word, names in words.items() if names]


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested choices by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


if __name__ == "__main__":
    sys.exit(main())
