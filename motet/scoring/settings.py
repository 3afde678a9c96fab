"""[scoring]: which model is scored, on which test data, with which weights, and which round is reported."""

from typing import Literal

from pydantic import Field

from motet.settings import Section


class ScoringSettings(Section):
    """The choices in which the five papers differ (FIDELITY section 1). A protocol sets them all."""

    pm_source: Literal["last_participation", "final_sync", "global_plus_personal"] = Field(
        "last_participation",
        description="personal model: the client's after its last local training; after one more training of "
        "everybody at the end; or the current global model plus the client's private parts",
    )
    never_sampled: Literal["global", "initial"] = Field(
        "global", description="last_participation of a client never sampled: the current global or the initial model"
    )
    test: Literal["common", "split"] = Field(
        "common", description="headline test data: the common test set weighted by class (Eq. 20), or the client's own"
    )
    class_weights: Literal["literal", "count_corrected"] = Field(
        "literal", description="Eq. 20 as printed, or corrected for a test set whose classes differ in size"
    )
    client_weighting: Literal["uniform", "by_samples"] = Field("uniform", description="headline mean over clients")
    report: Literal["last", "best", "best_on_validation"] = Field(
        "last",
        description="round reported: the last, the best on test data (as some papers do), the best on validation",
    )
    common_test: Literal["always", "last"] = Field(
        "always",
        description="at every scoring, or in the last round alone: personal models on the common test set, and the "
        "generic model where clients' own test data make that set (its plain accuracy comes from theirs)",
    )
    every: int = Field(5, ge=1, description="score every so many rounds; the last round is always scored")
