"""The contract with Flower: exactly the version is installed whose inner parts `motet/sites/flower/` uses, and no other
file knows it."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra sites: pip install 'motet[sites]'")

import flwr.supercore.version

from motet.errors import MotetError
from motet.sites.flower.carrier import BUNDLE, TYPES
from motet.sites.flower.common import HEARTBEAT, require_flower
from motet.sites.flower.link import OPEN, QUIET, VERSION

PACKAGE = Path(__file__).parents[1] / "motet"
PARTS = {
    "flwr.app": ("ConfigRecord", "Message", "RecordDict"),
    "flwr.app.message": ("remove_content_from_message",),
    "flwr.common.constant": ("SUPERLINK_NODE_ID", "TIMESTAMP_HEADER", "ErrorCode", "HEARTBEAT_MIN_INTERVAL"),
    "flwr.common.serde": ("fab_to_proto", "message_to_proto"),
    "flwr.proto.control_pb2": ("ListNodesRequest", "RegisterNodeRequest", "StartRunRequest", "UnregisterNodeRequest"),
    "flwr.proto.fleet_pb2": ("ActivateNodeRequest", "DeactivateNodeRequest", "PullMessagesRequest"),
    "flwr.proto.runtime_pb2": ("AcquireTaskRequest", "GetNodesRequest", "PullAppMessagesRequest"),
    "flwr.supercore.constant": ("TASK_TOKEN_HEADER", "FLEET_HTTP_PUBLIC_KEY_HEADER", "FLEET_HTTP_SIGNATURE_HEADER"),
    "flwr.supercore.control": ("ControlHttpClient",),
    "flwr.supercore.error": ("FlowerError",),
    "flwr.supercore.inflatable.inflatable_object": ("get_all_nested_objects", "get_object_tree"),
    "flwr.supercore.inflatable.inflatable_utils": ("inflate_object_from_contents", "pull_objects", "push_objects"),
    "flwr.supercore.interceptors": ("SuperExecAuthHttpInterceptor",),
    "flwr.supercore.primitives.asymmetric": ("public_key_to_bytes", "sign_message"),
    "flwr.supercore.runtime": ("RuntimeHttpClient",),
    "flwr.supercore.runtime_version_compatibility": ("RuntimeVersionMetadata",),
    "flwr.supercore.task_identity": ("TaskIdentity",),
    "flwr.superlink.cli.flower_superlink": ("SuperLinkLifespan", "_parse_superlink_lifespan_config"),
    "flwr.superlink.main": ("create_app",),
    "flwr.supernode.fleet_http_client": ("FleetHttpClient",),
}


@pytest.mark.parametrize("module", PARTS)
def test_flower_has_the_parts_that_carry_messages(module: str) -> None:
    advice = f"Flower {VERSION} had it; see what replaces it, change motet/sites/flower/, then VERSION and this list"
    try:
        found = importlib.import_module(module)
    except ImportError:
        pytest.fail(f"this Flower has no module {module}: {advice}")
    missing = [name for name in PARTS[module] if not hasattr(found, name)]
    assert not missing, f"this Flower has no {', '.join(missing)} in {module}: {advice}"


def test_the_installed_version_is_the_accepted_one() -> None:
    require_flower()
    assert flwr.supercore.version.package_version == VERSION


def test_another_version_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flwr.supercore.version, "package_version", "1.42.0")
    with pytest.raises(MotetError, match=r"^Flower 1.42.0 is installed, .*; accepted: flwr==1.41.0"):
        require_flower()


def test_without_flower_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "flwr.supercore.version", None)
    with pytest.raises(MotetError, match=r"need Flower, .*pip install 'motet\[sites\]'"):
        require_flower()


def test_its_clients_take_a_transport_and_its_bundle_is_valid() -> None:
    import tomllib

    from flwr.common.config import validate_config
    from flwr.common.constant import HEARTBEAT_MIN_INTERVAL
    from flwr.supercore.protobuf.client import ProtobufClient

    assert "_client" in inspect.getsource(ProtobufClient.__init__)  # which `over_socket` replaces
    assert validate_config(tomllib.loads(BUNDLE), check_module=False)[0]
    assert HEARTBEAT >= HEARTBEAT_MIN_INTERVAL


def test_sites_reach_the_calls_of_the_fleet_alone() -> None:
    from flwr.supernode.fleet_http_client import FleetHttpClient

    source = inspect.getsource(FleetHttpClient)
    assert all(f'"{path}"' in source for path in OPEN)
    assert not [path for path in OPEN if "register" in path or "fab" in path or not path.startswith("/v1/fleet/")]
    assert QUIET["FLWR_TELEMETRY_ENABLED"] == "0"
    assert not {"export", "client_snapshot", "run_metric"} & set(TYPES)


def test_no_other_file_knows_flower() -> None:
    knowing = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "flwr" for name in names):
                knowing.add(path.parent.relative_to(PACKAGE).as_posix())
    assert knowing == {"sites/flower"}
