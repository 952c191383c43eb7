"""Reports about a stream: the facts, gathered once, and the JSON document and on-call block made of them.

`material` gathers the facts, `document` is the JSON form, `block` the text. The report run, the command line and the
web page use these.
"""

from lakeward.supervision.report.due import DueReport, Report, due, of_stream, read, record

__all__ = ["DueReport", "Report", "due", "of_stream", "read", "record"]
