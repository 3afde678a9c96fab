"""Readers: files and objects of the user's as `RawData` (`raw.py`), with one sentence about whatever is wrong in them.

`registry.py` chooses the reader of a path. Tables: `batches.py` streams CSV and Parquet, `survey.py` looks at CSV
first, `table.py` reads rows, `roles.py` label, client and domain, `cells.py`, `values.py` and `notation.py` single
values, `hints.py` warns of leaks, `texts.py` reads a column of texts. Others: `arrays.py` and `npz.py`,
`image_folder.py` and `image_files.py`, `hugging_face.py`, `in_memory.py`, `idx.py`, `leaf.py`, `archives.py`. May
import config, io and data's schema and preparation. Nothing in a file is ever run. Start reading in `registry.py`.
"""
