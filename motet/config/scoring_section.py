"""The section [scoring]: which model is scored, on which data, with which weights, and which round is reported."""

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from motet.config.section import Section, one_or_several
from motet.config.threshold_rule import threshold_text
from motet.metrics.names import FROM_COUNTS, FROM_RANKS, FROM_SUMS, PERSONAL, MetricName, name_of_metric

PersonalSource = Literal["last_participation", "final_sync", "global_plus_personal"]
"""Where a client's personal model comes from; `motet/training/personal_model_policy.py` explains each."""
NeverSampled = Literal["global", "initial"]
THRESHOLD_COUNTS = "thresholds, and counts of validation and test rows of each class above many thresholds"
CLASS_WEIGHTED = "class-weighted scores, from which class counts can be solved"
COUNTED_ANSWERS = "counts of test and validation rows by class and answer"
SCORES_AND_LABELS = "score and class of every test and validation row"
COUNTED_SCORES = "counts of test and validation rows by class and score"
SUMS_OF_NUMBERS = "number, mean and variance of the target in test and validation rows"
MEAN_OF_NUMBERS = "how well the mean of a client's training rows predicts its test and validation rows"
MOST_FREQUENT = "share of the most frequent class in test and validation rows"
ACCURACY, LOSS = "accuracy", "loss"  # metrics that are always computed


class ScoringSettings(Section):
    """The choices in which the papers differ. A protocol sets them all."""

    personal_model: Annotated[
        Literal["auto"] | PersonalSource | tuple[PersonalSource, ...],
        BeforeValidator(one_or_several(*get_args(PersonalSource), alone="auto")),
    ] = Field(
        "auto",
        description="personal model: the client's after its last local training (last_participation); after one more "
        "training of everybody at the end (final_sync); or the current global model plus what the client keeps "
        "(global_plus_personal); auto = as the method declares: the first where it makes models of clients' own, the "
        "last where it does not; of a list the first is the headline, and each is scored",
    )
    never_sampled: NeverSampled = Field(
        "global", description="last_participation of a client never sampled: the current global or the initial model"
    )
    test: Literal["auto", "common", "split", "none"] = Field(
        "auto",
        description="headline test data: the common test set weighted by class (Eq. 20), or split, the client's own; "
        "auto = the own of natural clients that keep some, else common; none = no test data is looked at, nor new "
        "clients: the headline is on validation data, for tuning",
    )
    clients: Literal["training", "new"] = Field(
        "training", description="whose models come first: those of clients that train, or of new ones once adapted"
    )
    by_class: Literal["auto"] | bool = Field(
        "auto",
        description="clients tell their scores on the common test set weighted by their own classes, from several of "
        "which a server can solve for their class counts; auto = only where clients are simulated, or the headline is "
        "of that kind; false: they tell none",
    )
    class_weights: Literal["literal", "count_corrected"] = Field(
        "count_corrected",
        description="each class of the common test set by its share of the client's data, or Eq. 20 as printed "
        "(literal), by which a class that is rare in the test set too counts for little",
    )
    client_weighting: Literal["uniform", "by_samples"] = Field("uniform", description="headline mean over clients")
    report: Literal["last", "best", "best_on_validation"] = Field(
        "last",
        description="round reported: the last, the best on test data (as some papers do), the best on validation",
    )
    common_test: Literal["always", "last", "whole"] = Field(
        "always",
        description="at every scoring, or in the last round alone: personal models on the common test set, and the "
        "generic model where clients' own test data make that set (its plain accuracy comes from theirs); on classes "
        "that a client does not hold in the last round alone, but with whole at every scoring",
    )
    heads: bool = Field(
        False,
        description="score other heads of clients' personal models too, such as FED-ROD's generic head as the client "
        "trained it: the figures of personal@generic_head",
    )
    training_data: bool = Field(
        False,
        description="score models on clients' training data too: the figures of personal.training and generic.training",
    )
    metric: str = Field(
        "auto",
        description="the metric by which models are judged: in the headline, in tuning and in a recommendation; "
        "accuracy, auroc, balanced_accuracy, f1, ... of `motet list metrics`, or a function as in `metrics`; auto = "
        "auroc for data of your own with two classes, the rarer in less than 20 % of the training rows; else accuracy",
    )
    pooling: Literal["auto", "exact", "binned", "none"] = Field(
        "auto",
        description="metrics of answers or ranks over all clients' rows at once: clients tell counts of rows by class "
        "and answer, and for auroc and average_precision each row's score and class (exact) or counts by class in bins "
        "of the score (binned); auto = exact where clients are simulated, binned where they are natural; none: they "
        "tell nothing, and only each client's own figure is there; without such a metric nothing is told",
    )
    majority: bool = Field(
        True,
        description="clients tell how often always answering with the most frequent class of their training data would "
        "be right, beside which an accuracy is read; false: nobody tells it",
    )
    metrics: tuple[str, ...] = Field(
        (),
        description="besides accuracy: names of `motet list metrics`, or a function of logits and labels as "
        "module:function or file.py:function",
    )
    train_loss: bool = Field(
        True,
        description="clients tell the server the loss of their training (mean over the last epoch): a number more that "
        "leaves them; false: nobody tells it",
    )
    derived_generic: bool = Field(
        False,
        description="where a method has no generic model because weights are private: score the mean of the clients' "
        "personal models as one, which for that leave their clients",
    )
    figures_learned: bool = Field(
        True,
        description="at the end, record what the method learned, for a report; in a simulation clients hand over what "
        "that takes: coefficients, and features of a few samples",
    )
    threshold: Annotated[str, AfterValidator(threshold_text)] = Field(
        "",
        description="of two classes: what the probability from which on the second is predicted is chosen for, for "
        "each model on validation rows: the largest f1 or balanced_accuracy, or recall>=0.9 or precision>=0.8 and the "
        "other of both as large as can be; a fifth of what clients train with is kept for that unless data.val_share "
        "says otherwise; empty: the more probable class is predicted",
    )
    every: int = Field(5, ge=1, description="score every so many rounds; the last round is always scored")

    @property
    def personal_sources(self) -> tuple[PersonalSource, ...]:
        """The sources of all personal models that are scored, the headline's first."""
        assert self.personal_model != "auto", "a run has no auto: it is settled"
        return self.personal_model if isinstance(self.personal_model, tuple) else (self.personal_model,)

    @property
    def headline(self) -> MetricName:
        """The figure of personal models that is reported first."""
        data = {"split": "split", "none": "validation"}.get(
            self.test, "weighted"
        )  # `auto` has been replaced before a run
        return MetricName(PERSONAL, data, self.metric_name, self.mean_over_clients)

    @property
    def metric_name(self) -> str:
        """The name of the headline's metric in figures; accuracy while it is not settled."""
        return ACCURACY if self.metric == "auto" else name_of_metric(self.metric)

    @property
    def asked_metrics(self) -> tuple[str, ...]:
        """The metrics that are computed besides accuracy and loss: those asked for, and the headline's."""
        there = {*map(name_of_metric, self.metrics), ACCURACY, LOSS}
        return self.metrics if self.metric_name in there else (*self.metrics, self.metric)

    @property
    def tells(self) -> frozenset[str]:
        """What the scores reveal about clients, besides the quality of their models."""
        told = {CLASS_WEIGHTED} if self.by_class and self.looks_at_test else set()
        names = set(map(name_of_metric, self.asked_metrics))
        if self.pooling != "none" and names & FROM_COUNTS:
            told.add(COUNTED_ANSWERS)
        if names & FROM_SUMS:
            told |= {MEAN_OF_NUMBERS} if self.majority else set()
            told |= {SUMS_OF_NUMBERS} if self.pooling != "none" else set()
            return frozenset(told)
        if self.pooling != "none" and names & FROM_RANKS:
            told.add(COUNTED_SCORES if self.pooling == "binned" else SCORES_AND_LABELS)
        if self.threshold and self.looks_at_test:
            told.add(THRESHOLD_COUNTS)
        return frozenset(told | ({MOST_FREQUENT} if self.majority else set()))

    @property
    def looks_at_test(self) -> bool:
        """Whether any test data are scored."""
        return self.test != "none"

    @property
    def mean_over_clients(self) -> str:
        """The name of the headline's statistic over clients."""
        return "by_samples" if self.client_weighting == "by_samples" else "mean"
