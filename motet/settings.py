"""The base of every section of an experiment: typed, closed to unknown names, never changed in place."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One table of the experiment file, or the options of a method. Each room of the house defines its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
