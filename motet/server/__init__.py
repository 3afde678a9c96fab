"""The server's side of a run, and the place where clients' work is done.

`round_loop.py` is the one loop over rounds, `evaluation.py` scores models through the engine, `final_evaluation.py`
computes what is reported once after the last round, `workplace.py` does a task where the data are, `partial_sums.py`
adds replies up there where that is asked for, `assembly.py` builds all of it from an experiment and refuses what cannot
run, `memory_estimate.py` refuses what memory has no room for.
Imports everything below: methods, metrics, engines and under them. Start reading in `round_loop.py`.
"""
