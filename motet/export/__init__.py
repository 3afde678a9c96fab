"""Export: models of a finished run in folders that work without the run, and their use elsewhere.

`run.py` exports (`motet export`), `portable.py` turns a method's model into a plain net with constants, `formats.py`
writes torch.export programs and ONNX, `description.py`, `index.py` and `folder.py` are the files of an export.
`loading.py` loads one again, `routing.py` uses all of an export as one. `answering.py` decides which model answers
which sample and writes the answers, `reading.py` and `rows.py` read samples from a file or memory. `refit.py` exports
the recommended method of a comparison, trained once more. `newcomer.py` adapts a model to a new client. May import
studies, runs and below; runs no code from a folder. Start reading in `run.py`.
"""

from motet.export.loading import LoadedModel, load_model, load_models
from motet.export.routing import RoutedModels

__all__ = ["LoadedModel", "RoutedModels", "load_model", "load_models"]
