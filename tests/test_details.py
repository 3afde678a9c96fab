"""What `motet list methods` says of each method beside its summary."""

from motet.methods import describe_methods
from motet.report.tables.catalogue import details

ROWS = {str(row["name"]): details(row) for row in describe_methods()}


def test_a_method_says_what_travels_stays_is_told_and_composes() -> None:
    assert (
        ROWS["fedper"]
        == "models down body, up body; keeps the head; tells its size, its training loss; joins other parts"
    )
    assert ROWS["fedbn"].endswith("keeps normalization layers; tells its size, its training loss; joins other parts")
    assert ROWS["local"] == "models down 0, up 0; keeps every weight; tells its training loss; joins other parts"
    assert (
        "models down 1 + generator, up 1; keeps its data; tells its size, its training loss, class counts"
        in ROWS["fedgen"]
    )
    assert ROWS["apple"].startswith("models down N, up 1; keeps its shares p_i")
    assert ROWS["ditto"].endswith("carries any part")
    assert ROWS["fedbasis"].endswith("stands alone")
    assert ROWS["ft"].endswith(
        "sends nothing more; keeps its data; tells nothing; after any method with a generic model"
    )


def test_a_net_says_what_it_takes() -> None:
    row = {"accepts": ["image"], "stages": ["conv1", "fc"], "parameters": 1234, "example": "image 1x28x28"}
    assert details(row) == "takes image; stages conv1, fc; 1,234 parameters at image 1x28x28"
    assert details({"name": "digits"}) == ""


def test_what_is_uploaded_is_not_said_to_stay() -> None:
    """x_i of L2GD leaves in every round; FedBN sends all but its normalization; all tell their training loss."""
    rows = {str(row["name"]): row for row in describe_methods()}
    assert not rows["l2gd"]["stays"] and "w" in rows["l2gd"]["uploads"]  # type: ignore[operator]
    assert rows["fedbn"]["uploads"] == rows["fedper"]["uploads"] != []
    assert all("its training loss" in each for each in ROWS.values() if not each.startswith("sends nothing more"))
