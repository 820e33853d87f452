import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from booking import BookingError
from support import invalid, refused

DAY = "2026-03-02"
AT = DAY + "T"


@pytest.fixture(autouse=True)
def house(desk):
    """Two rooms, and two guests with 100 credits."""
    for id in ("blue", "red"):
        desk.rooms.add(id=id, building="east", seats=8)
    for id in ("ada", "bob"):
        desk.guests.register(id, f"{id}@example.org")
        desk.guests.credit(id, 100)


@pytest.fixture
def credits(guests):
    return lambda id="ada": int(guests.get(id)["credits"])


class TestBooking:
    def test_takes_credits(self, bookings, credits):
        assert bookings.book("blue", AT + "10", "ada") == [AT + "10"]
        assert credits() == 90

    def test_is_stored_with_its_details(self, bookings):
        bookings.book("blue", AT + "10", "ada", purpose="talk", people=3)
        assert bookings.find("blue", AT + "10") == {
            "room": "blue", "slot": AT + "10", "guest": "ada", "first": AT + "10", "hours": 1, "purpose": "talk", "people": 3,
        }

    def test_some_hours(self, bookings, credits):
        assert bookings.book("blue", AT + "10", "ada", hours=3) == [AT + "10", AT + "11", AT + "12"]
        assert credits() == 70

    def test_a_slot_once(self, bookings, credits):
        bookings.book("blue", AT + "10", "ada")
        with refused("taken", "10"):
            bookings.book("blue", AT + "10", "bob")
        assert credits("bob") == 100

    @pytest.mark.parametrize("first, hours, taken", [(9, 2, "10"), (11, 2, "11"), (8, 9, "10"), (11, 1, "11")])
    def test_no_overlap(self, bookings, credits, first, hours, taken):
        bookings.book("blue", AT + "10", "ada", hours=2)
        with refused("taken", taken):
            bookings.book("blue", f"{AT}{first:02}", "bob", hours=hours)
        assert len(bookings.of_room("blue")) == 2
        assert credits("bob") == 100

    @pytest.mark.parametrize("first, hours", [(8, 2), (12, 3)])
    def test_next_to_another(self, bookings, first, hours):
        bookings.book("blue", AT + "10", "ada", hours=2)
        bookings.book("blue", f"{AT}{first:02}", "bob", hours=hours)
        assert len(bookings.of_room("blue")) == 2 + hours

    def test_another_room(self, bookings):
        bookings.book("blue", AT + "10", "ada")
        bookings.book("red", AT + "10", "ada")

    def test_an_unknown_room(self, bookings, credits):
        with refused("not-found", "no room green"):
            bookings.book("green", AT + "10", "ada")
        assert credits() == 100

    def test_too_few_credits(self, bookings):
        with refused("credits", "110"):
            bookings.book("blue", AT + "08", "ada", hours=11)
        assert bookings.of_room("blue") == []

    def test_an_unknown_guest(self, bookings):
        with refused("credits"):
            bookings.book("blue", AT + "08", "nobody")

    def test_the_end_of_the_day(self, bookings):
        assert bookings.book("blue", AT + "22", "ada", hours=2)[-1] == AT + "23"
        with refused("invalid"):
            bookings.book("red", AT + "22", "ada", hours=3)

    def test_of_many_for_a_slot_one_has_it(self, bookings, credits):
        def book(guest):
            try:
                return bookings.book("blue", AT + "10", guest)
            except (BookingError, ClientError) as error:
                return error

        with ThreadPoolExecutor(4) as pool:
            outcomes = list(pool.map(book, ["ada", "bob"] * 3))
        assert len([o for o in outcomes if isinstance(o, list)]) == 1
        assert credits("ada") + credits("bob") == 190


class TestTokens:
    def test_a_repeated_request_is_done_once(self, bookings, credits):
        for _ in range(3):
            bookings.book("blue", AT + "10", "ada", token="t1")
        assert credits() == 90

    def test_without_a_token_it_is_taken(self, bookings):
        bookings.book("blue", AT + "10", "ada")
        with refused("taken"):
            bookings.book("blue", AT + "10", "ada")

    def test_a_token_with_another_request(self, bookings, desk):
        desk.now = lambda at=time.time(): at
        bookings.book("blue", AT + "10", "ada", token="t1")
        with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
            bookings.book("blue", AT + "11", "ada", token="t1")

    def test_a_failed_request_may_be_repeated(self, bookings, guests):
        guests.transfer("ada", "bob", 100)
        with refused("credits"):
            bookings.book("blue", AT + "10", "ada", token="t1")
        guests.transfer("bob", "ada", 50)
        assert bookings.book("blue", AT + "10", "ada", token="t1")

    @pytest.fixture(autouse=True)
    def still(self, desk):
        """The time is part of the request."""
        desk.now = lambda at=time.time(): at


class TestCancelling:
    def test_returns_credits(self, bookings, credits):
        bookings.book("blue", AT + "10", "ada")
        assert bookings.cancel("blue", AT + "10", "ada") == [AT + "10"]
        assert credits() == 100
        assert bookings.find("blue", AT + "10") is None

    @pytest.mark.parametrize("hour", ["10", "11", "12"])
    def test_all_hours_by_any_of_them(self, bookings, credits, hour):
        bookings.book("blue", AT + "10", "ada", hours=3)
        assert len(bookings.cancel("blue", AT + hour, "ada")) == 3
        assert bookings.of_room("blue") == []
        assert credits() == 100

    def test_of_somebody_else(self, bookings):
        bookings.book("blue", AT + "10", "ada")
        with refused("not-found"):
            bookings.cancel("blue", AT + "10", "bob")

    def test_nothing(self, bookings):
        with refused("not-found"):
            bookings.cancel("blue", AT + "10", "ada")

    def test_twice(self, bookings, credits):
        bookings.book("blue", AT + "10", "ada")
        bookings.cancel("blue", AT + "10", "ada")
        with refused("not-found"):
            bookings.cancel("blue", AT + "10", "ada")
        assert credits() == 100

    def test_the_slot_is_free_again(self, bookings):
        bookings.book("blue", AT + "10", "ada")
        bookings.cancel("blue", AT + "10", "ada")
        bookings.book("blue", AT + "10", "bob")
        assert bookings.find("blue", AT + "10")["guest"] == "bob"


class TestLists:
    @pytest.fixture(autouse=True)
    def some(self, bookings):
        for day, hour, guest in [("02", 9, "ada"), ("02", 14, "bob"), ("03", 9, "ada"), ("04", 8, "ada"), ("10", 9, "bob")]:
            bookings.book("blue", f"2026-03-{day}T{hour:02}", guest)
        bookings.book("red", "2026-03-03T12", "ada")

    def slots(self, items):
        return [b["slot"][8:] for b in items]

    def test_of_a_room(self, bookings):
        assert self.slots(bookings.of_room("blue")) == ["02T09", "02T14", "03T09", "04T08", "10T09"]

    @pytest.mark.parametrize("limit", [1, 2, 5])
    def test_of_a_room_page_by_page(self, bookings, limit):
        assert len(bookings.of_room("blue", limit=limit)) == 5

    @pytest.mark.parametrize(
        "arguments, want",
        [
            ({"day": "2026-03-02"}, ["02T09", "02T14"]),
            ({"day": "2026-03-05"}, []),
            ({"day": "2026-03"}, ["02T09", "02T14", "03T09", "04T08", "10T09"]),
            ({"since": "2026-03-04"}, ["04T08", "10T09"]),
            ({"until": "2026-03-02T14"}, ["02T09"]),
            ({"since": "2026-03-02T14", "until": "2026-03-04T08"}, ["02T14", "03T09", "04T08"]),
        ],
    )
    def test_of_some_time(self, bookings, arguments, want):
        assert self.slots(bookings.of_room("blue", **arguments)) == want

    def test_of_a_guest_in_all_rooms(self, bookings):
        assert self.slots(bookings.of_guest("ada")) == ["02T09", "03T09", "03T12", "04T08"]

    def test_of_a_guest_has_keys_only(self, bookings):
        assert bookings.of_guest("bob")[0] == {"guest": "bob", "room": "blue", "slot": "2026-03-02T14"}

    def test_of_a_guest_after(self, bookings):
        assert self.slots(bookings.of_guest("ada", after="2026-03-03T09")) == ["03T12", "04T08"]

    def test_of_nobody(self, bookings):
        assert bookings.of_guest("nobody") == []

    def test_free_hours(self, bookings):
        assert bookings.free("blue", "2026-03-02", opening=8, closing=16) == [8, 10, 11, 12, 13, 15]

    def test_a_held_hour_is_not_free(self, bookings):
        bookings.hold("blue", "2026-03-02T10", "bob")
        assert bookings.free("blue", "2026-03-02", opening=8, closing=12) == [8, 11]

    def test_clearing_a_room(self, bookings):
        assert bookings.clear("blue") == 5
        assert bookings.of_room("blue") == []
        assert len(bookings.of_room("red")) == 1

    def test_clearing_more_than_a_batch(self, desk, bookings):
        with bookings.table.batch_writer() as batch:
            for n in range(70):
                batch.put_item(Item={"room": "hall", "slot": f"{n:03}", "guest": "ada"})
        assert bookings.clear("hall") == 70
        assert bookings.of_room("hall") == []


class TestHolds:
    SLOT = AT + "10"

    def test_a_hold_keeps_the_slot(self, bookings):
        bookings.hold("blue", self.SLOT, "ada")
        assert bookings.held_by("blue", self.SLOT) == "ada"
        with refused("held"):
            bookings.hold("blue", self.SLOT, "bob")

    def test_nobody_holds_it(self, bookings):
        assert bookings.held_by("blue", self.SLOT) is None

    def test_others_cannot_book(self, bookings, credits):
        bookings.hold("blue", self.SLOT, "ada")
        with refused("held"):
            bookings.book("blue", self.SLOT, "bob")
        assert credits("bob") == 100

    def test_a_booking_ends_the_hold(self, bookings):
        bookings.hold("blue", self.SLOT, "ada")
        bookings.book("blue", self.SLOT, "ada")
        assert bookings.stored_hold("blue", self.SLOT) is None

    def test_what_is_booked_is_not_held(self, bookings):
        bookings.book("blue", self.SLOT, "ada")
        with refused("taken"):
            bookings.hold("blue", self.SLOT, "ada")

    def test_a_hold_in_the_middle(self, bookings):
        bookings.hold("blue", AT + "11", "bob")
        with refused("held"):
            bookings.book("blue", self.SLOT, "ada", hours=3)
        assert bookings.of_room("blue") == []

    def test_releasing(self, bookings):
        bookings.hold("blue", self.SLOT, "ada")
        bookings.release("blue", self.SLOT, "ada")
        assert bookings.hold("blue", self.SLOT, "bob")["guest"] == "bob"

    def test_releasing_what_somebody_else_holds(self, bookings):
        bookings.hold("blue", self.SLOT, "ada")
        with refused("held"):
            bookings.release("blue", self.SLOT, "bob")

    def test_lasts_15_minutes_from_the_last_time(self, desk, bookings):
        now = int(time.time())
        for later in (0, 60):
            desk.now = lambda: now + later
            assert bookings.hold("blue", self.SLOT, "ada")["expires_at"] == now + later + 900

    @pytest.mark.parametrize("later, holder", [(899, "ada"), (900, None), (901, None)])
    def test_has_an_end(self, desk, bookings, later, holder):
        now = int(time.time())
        desk.now = lambda: now
        bookings.hold("blue", self.SLOT, "ada")
        desk.now = lambda: now + later
        assert bookings.held_by("blue", self.SLOT) == holder

    def test_somebody_else_holds_what_has_expired(self, desk, bookings):
        bookings.hold("blue", self.SLOT, "ada")
        desk.now = lambda: time.time() + 901
        assert bookings.hold("blue", self.SLOT, "bob")["guest"] == "bob"

    def test_somebody_else_books_what_has_expired(self, desk, bookings):
        bookings.hold("blue", self.SLOT, "ada")
        desk.now = lambda: time.time() + 901
        bookings.book("blue", self.SLOT, "bob")
        assert bookings.stored_hold("blue", self.SLOT) is None

    def test_an_expired_hold_is_free(self, desk, bookings):
        desk.now = lambda: time.time() - 1000
        bookings.hold("blue", self.SLOT, "ada")
        desk.now = time.time
        assert 10 in bookings.free("blue", DAY)

    def test_is_deleted_when_it_has_expired(self, desk, bookings, expire):
        desk.now = lambda: time.time() - 1000
        bookings.hold("blue", self.SLOT, "ada")
        expire(lambda: bookings.stored_hold("blue", self.SLOT) is None)
        assert bookings.stored_hold("blue", self.SLOT) is None

    def test_only_what_has_expired_is_deleted(self, desk, bookings, expire):
        for n in range(6):
            desk.now = lambda: time.time() - (1000 if n % 2 else 0)
            bookings.hold("blue", f"{AT}1{n}", "ada")

        def left():
            return [n for n in range(6) if bookings.stored_hold("blue", f"{AT}1{n}")]

        expire(lambda: left() == [0, 2, 4])
        assert left() == [0, 2, 4]

    def test_a_hold_that_was_longer_held_stays(self, desk, bookings, expire):
        desk.now = lambda: time.time() - 880
        bookings.hold("blue", self.SLOT, "ada")
        desk.now = lambda: time.time()
        bookings.hold("blue", self.SLOT, "ada")
        desk.now = lambda: time.time() - 1000
        bookings.hold("red", self.SLOT, "ada")
        expire(lambda: bookings.stored_hold("red", self.SLOT) is None)
        assert bookings.stored_hold("blue", self.SLOT)


class TestHistory:
    def test_nothing_yet(self, desk):
        assert desk.history().read() == []

    def test_a_booking(self, desk, bookings):
        bookings.book("blue", AT + "10", "ada", purpose="talk")
        [event] = desk.history().read()
        assert event["name"] == "INSERT"
        assert event["key"] == {"room": "blue", "slot": AT + "10"}
        assert event["after"] == bookings.find("blue", AT + "10")
        assert event["before"] is None

    def test_a_change(self, desk, bookings):
        bookings.book("blue", AT + "10", "ada")
        bookings.table.update_item(
            Key={"room": "blue", "slot": AT + "10"}, UpdateExpression="SET purpose = :p", ExpressionAttributeValues={":p": "talk"}
        )
        event = desk.history().read()[1]
        assert event["name"] == "MODIFY"
        assert "purpose" not in event["before"] and event["after"]["purpose"] == "talk"

    def test_a_cancellation(self, desk, bookings):
        bookings.book("blue", AT + "10", "ada")
        bookings.cancel("blue", AT + "10", "ada")
        event = desk.history().read()[1]
        assert event["name"] == "REMOVE"
        assert event["before"]["guest"] == "ada" and event["after"] is None

    def test_a_refused_booking_is_no_event(self, desk, bookings):
        bookings.book("blue", AT + "10", "ada")
        with refused("taken"):
            bookings.book("blue", AT + "09", "bob", hours=2)
        assert len(desk.history().read()) == 1

    def test_a_repeated_request_is_one_event(self, desk, bookings):
        desk.now = lambda at=time.time(): at
        for _ in range(2):
            bookings.book("blue", AT + "10", "ada", token="t1")
        assert len(desk.history().read()) == 1

    def test_a_write_that_changes_nothing_is_no_event(self, desk, bookings):
        bookings.book("blue", AT + "10", "ada")
        bookings.table.put_item(Item=bookings.find("blue", AT + "10"))
        assert len(desk.history().read()) == 1

    def test_each_hour_is_an_event(self, desk, bookings):
        bookings.book("blue", AT + "10", "ada", hours=4)
        assert sorted(e["key"]["slot"] for e in desk.history().read()) == [f"{AT}{h}" for h in (10, 11, 12, 13)]

    def test_events_are_in_order(self, desk, bookings):
        for _ in range(3):
            bookings.book("blue", AT + "10", "ada")
            bookings.cancel("blue", AT + "10", "ada")
        events = desk.history().read()
        assert [e["name"] for e in events] == ["INSERT", "REMOVE"] * 3
        assert [e["sequence"] for e in events] == sorted(e["sequence"] for e in events)
        assert len({e["id"] for e in events}) == 6

    def test_a_reader_goes_on(self, desk, bookings):
        history = desk.history()
        bookings.book("blue", AT + "10", "ada")
        assert len(history.read()) == 1
        assert history.read() == []
        bookings.book("red", AT + "10", "ada")
        assert [e["key"]["room"] for e in history.read()] == ["red"]

    def test_readers_are_apart(self, desk, bookings):
        bookings.book("blue", AT + "10", "ada")
        assert len(desk.history().read()) == len(desk.history().read()) == 1

    @pytest.mark.parametrize("limit", [1, 3, 1000])
    def test_pages(self, desk, bookings, limit):
        bookings.book("blue", AT + "10", "ada", hours=5)
        assert len(desk.history().read(limit)) == 5

    def test_occupancy(self, desk, bookings):
        history = desk.history()
        bookings.book("blue", AT + "10", "ada", hours=3)
        bookings.book("red", AT + "10", "bob")
        bookings.cancel("blue", AT + "11", "ada")
        bookings.book("blue", AT + "10", "bob", hours=2)
        assert history.occupancy() == {"blue": 2, "red": 1}

    def test_the_stream_is_listed(self, desk):
        streams = desk.streams.list_streams(TableName="Bookings")["Streams"]
        assert [s["StreamArn"] for s in streams] == [desk.history().arn()]

    def test_a_table_without_a_stream(self, desk):
        from booking.history import History

        assert History(desk.client, desk.streams, "Holds").arn() is None


class TestDatabase:
    """What the service relies on."""

    @pytest.mark.parametrize(
        "arguments, match",
        [
            ({"Item": {"room": "a"}}, "key|Key"),
            ({"Item": {"room": "a", "slot": 1}}, "Type mismatch"),
            ({"Item": {"room": "", "slot": "a"}}, "empty string"),
            ({"Item": {"room": "a", "slot": "b", "guest": 7}}, "Type mismatch"),
            ({"Item": {"room": "a", "slot": "b", "x": "x" * 400 * 1024}}, "size"),
            ({"Item": {"room": "a", "slot": "b"}, "ConditionExpression": "guest = :g"}, ":g"),
            ({"Item": {"room": "a", "slot": "b"}, "ConditionExpression": "guest ="}, "Syntax error"),
            ({"Item": {"room": "a", "slot": "b"}, "ReturnValues": "ALL_NEW"}, "ReturnValues|Return values"),
        ],
    )
    def test_what_is_refused(self, bookings, arguments, match):
        with invalid(match):
            bookings.table.put_item(**arguments)

    def test_an_unknown_table(self, desk):
        with pytest.raises(ClientError) as error:
            desk.resource.Table("Nothing").scan()
        assert error.value.response["Error"]["Code"] == "ResourceNotFoundException"

    @pytest.mark.parametrize("slot, found", [("b", True), ("B", False), ("b ", False)])
    def test_keys_are_exact(self, bookings, slot, found):
        bookings.table.put_item(Item={"room": "a", "slot": "b"})
        assert bool(bookings.find("a", slot)) == found

    def test_slots_sort_by_their_bytes(self, bookings):
        for slot in ["b", "ä", "B", "a", "😀", "1", "10", "2"]:
            bookings.table.put_item(Item={"room": "x", "slot": slot})
        assert [b["slot"] for b in bookings.of_room("x")] == ["1", "10", "2", "B", "a", "b", "ä", "😀"]

    def test_statements(self, desk, bookings):
        bookings.book("blue", AT + "10", "ada")
        items = desk.client.execute_statement(
            Statement='SELECT guest FROM "Bookings" WHERE room = ? AND slot = ?', Parameters=["blue", AT + "10"]
        )["Items"]
        assert items == [{"guest": "ada"}]

    def test_waiters(self, desk):
        desk.client.get_waiter("table_exists").wait(TableName="Rooms", WaiterConfig={"Delay": 1, "MaxAttempts": 2})

    def test_paginators(self, desk, bookings):
        bookings.book("blue", AT + "10", "ada", hours=5)
        pages = desk.client.get_paginator("scan").paginate(TableName="Bookings", PaginationConfig={"PageSize": 2})
        assert sum(page["Count"] for page in pages) == 5

    def test_time_to_live_is_on(self, desk):
        about = desk.client.describe_time_to_live(TableName="Holds")["TimeToLiveDescription"]
        assert about == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
