"""From a table of your own to a model that takes raw rows: five hospitals, one CSV file, and `motet.run`.

python examples/own_table.py
"""

import csv
import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer

import motet

HOSPITALS = ("Aachen", "Bergen", "Cork", "Delft", "Evora")

with tempfile.TemporaryDirectory() as folder:
    path, table = Path(folder) / "patients.csv", load_breast_cancer()
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([*table.feature_names, "outcome", "hospital"])
        for number, (values, label) in enumerate(zip(table.data, table.target, strict=True)):
            cells = ["" if number % 7 == 0 and column == 3 else value for column, value in enumerate(values)]  # holes
            rows.writerow([*cells, table.target_names[label], HOSPITALS[number % 5]])

    result = motet.run(data=path, label="outcome", client="hospital", method="fedavg+ft", rounds=5)
    print(f"one model for all hospitals: {result.personal.split.generic_model:.3f}")
    print(f"one for each:                {result.personal.split.personal_models:.3f}")

    patient = dict(zip(map(str, table.feature_names), table.data[0].tolist(), strict=True))
    logits = result.personal_model("Bergen")(patient)  # a raw row, as the file has it
    print(
        f"Bergen's model says {result.class_names[int(logits.argmax())]}; in fact {table.target_names[table.target[0]]}"
    )
