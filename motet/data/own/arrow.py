"""pyarrow, which reads tables: the one place that imports it, itself imported where a table is at hand."""

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import compute, csv, ipc, parquet, types
except ImportError as error:
    from motet.errors import MotetError

    raise MotetError("tables are read by pyarrow, which is not here; install it: pip install pyarrow") from error

__all__ = ["compute", "csv", "ipc", "pa", "parquet", "types"]
