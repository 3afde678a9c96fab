"""Your own data: one .npz file with x, y and whose sample each row is."""

import tempfile
from pathlib import Path

import numpy as np

import motet

# Six clinics measure the same four quantities, each with an offset of its own; two of three diagnoses are common.
random = np.random.default_rng(0)
clinic = np.repeat(np.arange(6), 200)
y = random.choice(3, size=len(clinic), p=[0.45, 0.45, 0.1])
offset = random.normal(0, 2, size=(6, 4))
x = (np.eye(3, 4)[y] * 3 + offset[clinic] + random.normal(size=(len(y), 4))).astype(np.float32)

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "clinics.npz"
    np.savez(file, x=x, y=y, client=clinic)
    result = motet.run(method="fedavg+ft", data=file, partition="natural", rounds=10, cohort=1.0, lr=0.05)
    print(f"one model for all clinics, on each clinic's own test data: {result.personal.split.generic_model:.3f}")
    print(f"a model per clinic, on the same data:                      {result.personal.split.personal_models:.3f}")
    diagnosis = result.personal_model(2)(x[clinic == 2][:5]).argmax(1)
    print("clinic 2, first five patients:", diagnosis.tolist(), "true:", y[clinic == 2][:5].tolist())
