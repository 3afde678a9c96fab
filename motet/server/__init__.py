"""The server's side of a run, and the place where clients' work is done.

`round_loop.py` is the one loop over rounds, `evaluation.py` scores through the engine, `final_evaluation.py` looks
once more after the last round, `workplace.py` does what a task asks where the data are, `assembly.py` builds all of
it from an experiment and refuses what cannot run, `memory_estimate.py` says so before memory is taken. Imports
everything below: methods, metrics, engines and under them. Start reading in `round_loop.py`.
"""
