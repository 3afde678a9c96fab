"""Studies: many runs for one answer.

`compare.py` finds which method to take, `tune.py` good settings, `bench.py` runs a grid from a bench file. A
study asks for jobs (`job.py`), which `schedule.py` runs in this process or in workers, and writes one file with what it
found: `comparison_file.py`, `tune.py` and `bench.py` have the formats, and the report draws them. May import runs and
all that runs import, never report. Start reading in `compare.py`.
"""
