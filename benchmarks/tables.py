"""Three of scikit-learn's tables as CSV, for `motet compare`: string labels, a column of clients, holes.

python benchmarks/tables.py    # writes cancer.csv, wine.csv and digits.csv into this folder
"""

import csv

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

TABLES = (("cancer", load_breast_cancer, 5), ("wine", load_wine, 3), ("digits", load_digits, 8))
HOLES = 0.02  # share of empty cells

rng = np.random.default_rng(0)
for name, load, clients in TABLES:
    table = load()
    first = table.data[:, 0]
    key = first + rng.normal(0, first.std() + 1e-9, len(first))  # clients differ: rows are sorted by it and cut
    owner = np.empty(len(key), int)
    owner[np.argsort(key)] = np.arange(len(key)) * clients // len(key)
    with open(f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([*map(str, table.feature_names), "outcome", "hospital"])
        for row, label, client in zip(table.data, table.target, owner, strict=True):
            cells = ["" if rng.random() < HOLES else f"{value:g}" for value in row]
            rows.writerow([*cells, f"class {table.target_names[label]}", f"hospital {'ABCDEFGH'[client]}"])
