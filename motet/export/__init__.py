"""Export: models of a finished run in folders that work without the run, and their use elsewhere.

`run.py` exports (`motet export`), `portable.py` turns a method's model into a plain net with constants, `formats.py`
writes torch.export programs and ONNX, `description.py`, `index.py` and `folder.py` are the files of an export.
`loading.py` loads one again and predicts, `reading.py` reads the samples to predict, `newcomer.py` adapts a model to a
new client. May import runs and below; runs no code from a folder. Start reading in `run.py`.
"""

from motet.export.loading import LoadedModel, load_model

__all__ = ["LoadedModel", "load_model"]
