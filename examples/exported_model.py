"""A model leaves its run: exported, loaded where nothing of the run is, and run by ONNX alone."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import motet

result = motet.run(method="fedrod", clients=5, rounds=10, batch=20, lr=0.05, set={"local.momentum": 0.0})
x = load_digits().images[:8].astype(np.uint8)  # as the data file has them: no preparation of one's own

with tempfile.TemporaryDirectory() as folder:
    models = Path(folder) / "models"
    result.export(models, clients=[0, 1], generic=True, formats=["torch", "onnx"])

    for client in (None, 0, 1):
        model = motet.load_model(models, client)
        names = [model.class_names[number] for number in model(x).argmax(1)]
        print(f"{model.known.title:28} {' '.join(names)}")

    import onnxruntime  # on a machine with neither Motet nor torch this is all that is needed

    session = onnxruntime.InferenceSession(models / "client-0" / "model.onnx")
    (logits,) = session.run(["logits"], {"x": x[..., None]})
    print(f"{'the same in ONNX':28} {' '.join(map(str, logits.argmax(1)))}")
    assert np.abs(logits - result.personal_model(0)(x).numpy()).max() < 1e-4
