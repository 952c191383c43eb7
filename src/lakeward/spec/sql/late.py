"""Which rows of a source a window drops as late, found in the SQL of a transform. Pure.

Spark drops a row whose window ends at or before the watermark. Which rows these are can be computed from the records
of a batch only if nothing but a WHERE is between the source and the window: one SELECT, grouped by one window of the
watermark's column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakeward.spec.sql.statements import SqlProblem, parse_select, quote, spark_tokens

WINDOW = "_lw_window"
"""The column with the window of a row."""
_WINDOWS = ("window", "session_window")
_BESIDE = {
    "joins": "its SQL joins another table",
    "laterals": "its SQL has a LATERAL VIEW",
    "distinct": "its SELECT DISTINCT keeps a second state",
    "pivots": "its SQL has a PIVOT",
}
# Another value, or another row, each time: the records of a batch are read a second time to find the late ones.
_CHANGES = frozenset(
    {"current_timestamp", "current_date", "current_time", "curdate", "localtimestamp", "now", "unix_timestamp"}
    | {"rand", "random", "randn", "randstr", "uniform", "uuid", "monotonically_increasing_id", "spark_partition_id"}
)
_WITHOUT_BRACKETS = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp"})


class NotSeen(ValueError):
    """Raised with the reason why the rows that a query drops as late cannot be found."""


def select_of(text: str, column: str, random: Collection[str] = ()) -> str:
    """A SELECT over the source that returns each of its rows that reaches the window, once a window, in `WINDOW`.

    Args:
        text: the SQL of the transform.
        column: the watermark's column.
        random: functions of the project that may return another value for the same arguments.

    Raises:
        NotSeen: the late rows of this SQL cannot be found.
    """
    try:
        tree = parse_select(text)
    except SqlProblem as error:
        raise NotSeen(f"its SQL cannot be read here: {error}") from None
    if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Query))) > 1:
        raise NotSeen("its SQL is more than one SELECT")
    from_ = tree.args.get("from_")
    table = from_.this if from_ else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or table.args.get("sample"):
        raise NotSeen("its SELECT does not read the source as it is")
    for part in (tree, table):
        for key, why in _BESIDE.items():
            if part.args.get(key):
                raise NotSeen(why)
    _check_groups(tree, column.lower())
    _check_having(tree)
    tokens = spark_tokens(text)
    call = _call(tokens)
    reads = _reads(tokens)
    for before in (call, reads):
        for name in _changing(before, _CHANGES | {each.lower() for each in random}):
            raise NotSeen(f"its SQL calls {name}(), which has another value when the records are read again")
    return f"SELECT *, {_text(text, call)} AS {quote(WINDOW)} {_text(text, reads)}"


def _check_groups(tree: exp.Select, column: str) -> None:
    """Check that the rows are grouped by one window of the watermark's column, and by its time in no other way."""
    group = tree.args.get("group")
    if group is None:
        raise NotSeen("its SQL has no GROUP BY")
    if group.find(exp.Cube, exp.Rollup, exp.GroupingSets):
        raise NotSeen("its GROUP BY has several sets of columns")
    calls = {call.sql() for call in tree.find_all(exp.Anonymous) if call.name.lower() in _WINDOWS}
    if len(calls) != 1:
        raise NotSeen(f"its SQL has {'several windows' if calls else 'no window'}")
    keys = [_named(tree, key) for key in _keys(tree, group)]
    windows = [key for key in keys if isinstance(key, exp.Anonymous) and key.name.lower() in _WINDOWS]
    if len(windows) != 1:
        raise NotSeen("its GROUP BY has not exactly one window")
    of = windows[0].expressions[0] if windows[0].expressions else None
    if not isinstance(of, exp.Column) or of.name.lower() != column:
        raise NotSeen(f"its window is not one of {column}, the watermark's column")
    if any(isinstance(key, exp.Column) and key.name.lower() == column for key in keys):
        raise NotSeen(f"it groups by {column} as well as by the window, and Spark takes one event time only")


def _keys(tree: exp.Select, group: exp.Group) -> list[exp.Expr]:
    if group.args.get("all"):
        return [item for item in tree.expressions if not item.find(exp.AggFunc)]
    return list(group.expressions)


def _named(tree: exp.Select, key: exp.Expr) -> exp.Expr:
    """What a key of GROUP BY stands for: a column of the SELECT by number or alias, else itself."""
    items = list(tree.expressions)
    if isinstance(key, exp.Literal) and not key.is_string and str(key.this).isdecimal():
        number = int(str(key.this))
        return items[number - 1].unalias() if 0 < number <= len(items) else key
    if isinstance(key, exp.Column) and not key.table:
        for item in items:
            if isinstance(item, exp.Alias) and item.alias.lower() == key.name.lower():
                return item.unalias()
    return key.unalias()


def _check_having(tree: exp.Select) -> None:
    """Check that HAVING tests aggregates: Spark moves a test of keys below the window, where its rows are not late."""
    having = tree.args.get("having")
    if having is not None and not all(_aggregated(tree, column) for column in having.find_all(exp.Column)):
        raise NotSeen("its HAVING tests a column of GROUP BY, which belongs into WHERE")


def _aggregated(tree: exp.Select, column: exp.Column) -> bool:
    """Whether a column is within an aggregate, or names one of the SELECT."""
    if column.find_ancestor(exp.AggFunc) is not None:
        return True
    item = _named(tree, column)
    within = list(item.find_all(exp.Column))
    return item is not column and all(each.find_ancestor(exp.AggFunc) is not None for each in within)


def _call(tokens: list[Token]) -> list[Token]:
    """The tokens of the first call of the window: all are equal."""
    for index, token in enumerate(tokens[:-1]):
        if token.text.lower() in _WINDOWS and tokens[index + 1].token_type is TokenType.L_PAREN:
            depth = 0
            for end in range(index + 1, len(tokens)):
                depth += _deeper(tokens[end])
                if depth == 0:
                    return tokens[index : end + 1]
    raise NotSeen("its SQL has no window")


def _reads(tokens: list[Token]) -> list[Token]:
    """The tokens from FROM up to GROUP BY."""
    depth, begin, before = 0, None, None
    for index, token in enumerate(tokens):
        depth += _deeper(token)
        if depth == 0 and token.token_type is TokenType.FROM and begin is None and before is not TokenType.DISTINCT:
            begin = index
        if depth == 0 and token.token_type is TokenType.GROUP_BY and begin is not None:
            return tokens[begin:index]
        before = token.token_type
    raise NotSeen("its SQL has no GROUP BY")


def _deeper(token: Token) -> int:
    return (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)


def _changing(tokens: list[Token], names: Collection[str]) -> Iterator[str]:
    for index, token in enumerate(tokens):
        name = token.text.lower()
        after = [each.token_type for each in tokens[index + 1 : index + 3]]
        called = after[:1] == [TokenType.L_PAREN]
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) or name not in names:
            continue
        if name == "unix_timestamp" and after != [TokenType.L_PAREN, TokenType.R_PAREN]:
            continue  # of a column
        if called or name in _WITHOUT_BRACKETS:
            yield name


def _text(text: str, tokens: list[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1]
