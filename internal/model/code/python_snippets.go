package code

// pySnippets are what generated Python is built on, by name.
var pySnippets = map[string]snippet{
	"T": {imports: []string{"Generic", "TypeVar"}, text: `

T = TypeVar("T")
`},
	"Page": {needs: []string{"T"}, text: `

@dataclass
class Page(Generic[T]):
    """A page of a query. next is where the next page starts; it is None after the last one."""

    items: list[T]
    next: Key | None
`},
	"Position": {text: `

@dataclass(frozen=True)
class Position:
    """Where the next page of a shard starts: at its beginning, or after a key.

    A shard without more pages is finished.
    """

    after: Key | None = None
    finished: bool = False


@dataclass(frozen=True)
class ShardQuery:
    """The request of one shard."""

    shard: int
    request: Request
`},
	"ShardPage": {needs: []string{"Position", "T"}, text: `

@dataclass
class ShardPage(Generic[T]):
    """A page of one shard. next is where the next page starts."""

    items: list[T]
    next: Position
`},
	"_positions": {needs: []string{"Position"}, text: `

def _positions(start: Sequence[Position] | None, shards: int) -> Sequence[Position]:
    """Returns a position for each shard."""
    if start is None:
        return [Position()] * shards
    if len(start) != shards:
        raise ValueError(f"there are {len(start)} positions, but {shards} shards")
    return start


def _position_after(key: Key | None) -> Position:
    """Returns the position after a page."""
    return Position(after=key, finished=not key)
`},
	"_key_part": {text: `

def _key_part(name: str, key: str, value: str, following: str, *others: str) -> None:
    """Fails if a value cannot be a part of a key.

    It must not be empty, and it must end before the text that follows it in the key, and
    before the texts that follow such a value in other keys.
    """
    if not value:
        raise ValueError(f"{name} must not be empty: it is a part of {key}")
    for end in (*others, following):
        if end and 0 <= (value + following).find(end) < len(value):
            problem = "contain" if end in value else "end with a part of"
            raise ValueError(f'{name} must not {problem} "{end}", which ends it in {key}')
`},
	"_key_bound": {text: `

def _key_bound(name: str, key: str, value: str, *ends: str) -> None:
    """Fails if an end of a range contains a text that ends such values in a key."""
    for end in ends:
        if end in value:
            raise ValueError(f'{name} must not contain "{end}", which ends it in {key}')
`},
	"_added_set": {text: `

def _added_set(name: str, members: set[Any]) -> None:
    """Fails if a set that is added to an attribute is empty."""
    if not members:
        raise ValueError(f"the set that is added to {name} must not be empty")
`},
	"_set_clause": {text: `

def _set_clause(name: str, value: str, members: set[Any]) -> tuple[str, str]:
    """Sets an attribute to a set, or removes it if the set is empty."""
    return ("SET", f"{name} = {value}") if members else ("REMOVE", name)
`},
	"_update_expression": {text: `

def _update_expression(*clauses: tuple[str, str]) -> str:
    """Joins the changes of an update."""
    sections = []
    for section in ("SET", "REMOVE", "ADD"):
        texts = [text for kind, text in clauses if kind == section]
        if texts:
            sections.append(section + " " + ", ".join(texts))
    return " ".join(sections)
`},
	"_without_empty_sets": {text: `

def _without_empty_sets(values: Item, *names: str) -> Request:
    """Returns the values of a request without those of the named ones that are empty sets."""
    kept = {k: v for k, v in values.items() if k not in names or any(v.values())}
    return {"ExpressionAttributeValues": kept} if kept else {}
`},
	"_strange_item": {text: `

def _strange_item(it: Mapping[str, AttributeValue], *key: str) -> ValueError:
    """The error of an item that is of none of the expected entities."""
    text = "an item is of no entity that the model expects here:"
    for name in key:
        value = it.get(name, {}).get("S", "")
        text += f' {name} "{value}"'
    return ValueError(text)
`},
	"_shard_of": {text: `

def _shard_of(text: str, shards: int) -> int:
    """Returns the shard of a text."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value % shards
`},
	"_number_text": {text: `

def _number_text(number: Number) -> str:
    """Returns a number in decimal digits, without exponent."""
    text = format(Decimal(number), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
`},
	"_cut": {text: `

def _cut(text: str, *pieces: str) -> list[str] | None:
    """Returns the texts between the pieces of a template, None if the text is not of its form."""
    if not text.startswith(pieces[0]) or (len(pieces) == 1 and text != pieces[0]):
        return None
    between = []
    rest = text[len(pieces[0]) :]
    for i, piece in enumerate(pieces[1:], 2):
        end = rest.find(piece)
        if i == len(pieces):
            end = len(rest) - len(piece) if rest.endswith(piece) else -1
        if end <= 0:
            return None
        between.append(rest[:end])
        rest = rest[end + len(piece) :]
    return between
`},
	"_is_cut": {needs: []string{"_cut"}, text: `

def _is_cut(value: AttributeValue | None, *pieces: str) -> bool:
    """Tells whether a key attribute is of the form of a template."""
    return value is not None and "S" in value and _cut(value["S"], *pieces) is not None
`},
	"_part": {needs: []string{"_cut", "_read"}, text: `

def _part(it: Mapping[str, AttributeValue], name: str, i: int, *pieces: str) -> Any:
    """Returns the text after the i-th piece of a template."""
    if name not in it:
        return ""
    between = _cut(_read(it, name, "S"), *pieces)
    if between is None:
        raise ValueError(f"the attribute {name} is not of its form in the model")
    return between[i]
`},
	"_read": {text: `

def _read(it: Mapping[str, AttributeValue], name: str, kind: str) -> Any:
    """Returns an attribute of a type."""
    value = it.get(name, {})
    if kind not in value:
        raise ValueError(f"the attribute {name} is missing or not of type {kind}")
    return value[kind]
`},
	"_at_most": {text: `

def _at_most(what: str, n: int, most: int) -> None:
    """Fails for a list that is longer than the model allows."""
    if n > most:
        raise ValueError(f"{n} {what} are too many: the limit is {most}")
`},
}
