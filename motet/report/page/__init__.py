"""The report: one page that needs no network, from the records of finished runs or of a comparison."""

from motet.report.page.write import FORMATS, write_figures, write_report

__all__ = ["FORMATS", "write_figures", "write_report"]
