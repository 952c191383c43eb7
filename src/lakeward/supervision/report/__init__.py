"""What people read of a stream: the facts, gathered once, and the texts and documents made of them.

`material` gathers, `document` is the JSON form, `block` the text; the report run, the command line and the page all
read these.
"""

from lakeward.supervision.report.due import Due, Report, due, of_stream, read, told

__all__ = ["Due", "Report", "due", "of_stream", "read", "told"]
