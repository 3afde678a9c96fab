"""Three methods in one setting: what everybody gets, and what each client gets."""

import motet

SETTING = {"data": "digits", "partition": "dirichlet:0.3", "clients": 10, "rounds": 10, "batch": 20, "lr": 0.05}

for method in ("local", "fedavg", "fedavg+ft"):
    result = motet.run(method=method, **SETTING, set={"local.momentum": 0.0})
    generic, personal = result.generic.accuracy, result.personal.weighted.personal_models
    print(f"{method:10} generic {'–' if generic is None else f'{generic:.3f}'}  personal {personal:.3f}")
