import sys

import boto3
from botocore.config import Config

import generated as m

client = boto3.client("dynamodb", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test",
                      config=Config(retries={"total_max_attempts": 1}))


def show(what, call):
    """Prints the error of a call, or ok."""
    try:
        call()
        print(f"{what}: ok")
    except ValueError as e:
        print(f"{what}: {e}")


def word(**values):
    return m.Word(**({"country": "US", "city": "Louis", "name": "n", "level": 1, "tags": set(), "sizes": set(), "note": ""} | values))


def keys():
    show("last part", lambda: word(city="St#Louis").item())
    back = m.Word.of(word(city="St#Louis").item())
    print(back.country, back.city, back.name, back.level)
    show("item", lambda: word(country="US#St").item())
    show("empty", lambda: word(country="").item())
    show("key", lambda: m.Word.key(country="US", city="Louis", name="a#", level=1))
    show("get", lambda: m.word(country="US", city="", name="a", level=1))
    show("begins with nothing", lambda: m.words_beginning(country="US", city="Louis", name=""))
    show("begins", lambda: m.words_beginning(country="US", city="Louis", name="a#1"))
    show("query", lambda: m.words_beginning(country="US#St", city="Louis", name="a"))
    show("order", lambda: m.put_order(m.Order(customer="c", id="1#LINE#2")))
    show("order with a part of it", lambda: m.put_order(m.Order(customer="c", id="1#LINE")))
    show("line", lambda: m.put_line(m.Line(customer="c", id="1#LINE", number="2")))
    show("transaction", lambda: m.retag_all(words=[m.RetagAllWord(country="US", city="x", name="a#b", level=1, tags={"t"}, note="")]))

    client.put_item(**m.put_order(m.Order(customer="c", id="1")))
    client.put_item(**m.put_line(m.Line(customer="c", id="1", number="2")))
    page = m.decode_orders(client.query(**m.orders(customer="c")))
    print(len(page.orders), len(page.lines))
    client.put_item(TableName="keys", Item={"PK": {"S": "C#c"}, "SK": {"S": "OTHER"}})
    show("stranger", lambda: m.decode_orders(client.query(**m.orders(customer="c"))))


def sets():
    key = {"country": "US", "city": "Louis", "name": "n", "level": 1}
    client.put_item(**m.put_word(word(tags={"a"}, sizes={1}, note="x")))

    def stored():
        e = m.decode_word(client.get_item(**m.word(**key)))
        print("tags", ",".join(sorted(e.tags)), "sizes", len(e.sizes), "note", e.note)

    stored()
    for tags in set(), {"b", "c"}:
        client.update_item(**m.retag(**key, tags=tags))
        stored()
    client.update_item(**m.describe(**key, note="y", sizes=set(), tags={"d"}))
    stored()
    show("add", lambda: m.describe(**key, note="y", sizes=set(), tags=set()))
    client.transact_write_items(**m.retag_all(words=[m.RetagAllWord(**key, tags=set(), note="z")]))
    stored()


def shards():
    for i in range(9):
        client.put_item(**m.put_order(m.Order(customer="s", id=f"o{3 * i}")))
    at = [m.Position()] * 3
    ids = []
    rounds = 0
    while queries := m.open_orders(start=at):
        rounds += 1
        for q in queries:
            page = m.decode_open_orders(client.query(**q.request))
            ids += [e.id for e in page.items]
            at[q.shard] = page.next
        print("round", rounds, "of", len(queries), "shards")
    print(" ".join(sorted(ids)))


keys()
sets()
shards()
