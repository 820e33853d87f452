from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from boto3.dynamodb.conditions import Attr

from booking import BookingError
from support import invalid, refused


@pytest.fixture
def blue(rooms):
    return rooms.add(id="blue", building="east", seats=8)


@pytest.fixture
def east(rooms):
    """Nine rooms of a building."""
    for n in range(1, 10):
        rooms.add(id=f"r{n}", building="east", seats=n * 10, floor=n // 4, equipment=["screen"] * (n % 3 == 0))
    rooms.add(id="lone", building="west", seats=30)


class TestAdding:
    def test_a_room_is_stored(self, rooms):
        rooms.add(id="blue", building="east", seats=8, name="Blue room")
        assert rooms.get("blue") == {"id": "blue", "building": "east", "seats": 8, "name": "Blue room", "version": 1}

    def test_an_id_is_used_once(self, rooms, blue):
        with refused("exists", "blue"):
            rooms.add(id="blue", building="west", seats=2)
        assert rooms.get("blue")["building"] == "east"

    def test_equipment_is_a_set(self, rooms):
        rooms.add(id="blue", building="east", seats=8, equipment=["screen", "phone", "screen"])
        assert rooms.get("blue")["equipment"] == {"screen", "phone"}

    def test_no_equipment_is_no_attribute(self, rooms):
        rooms.add(id="blue", building="east", seats=8, equipment=[])
        assert "equipment" not in rooms.get("blue")

    def test_of_many_at_once_one_is_stored(self, rooms):
        def add(n):
            try:
                return rooms.add(id="race", building="east", seats=n)
            except BookingError:
                return None

        with ThreadPoolExecutor(4) as pool:
            stored = [room for room in pool.map(add, range(1, 7)) if room]
        assert len(stored) == 1
        assert rooms.get("race")["seats"] == stored[0]["seats"]

    @pytest.mark.parametrize(
        "changes, match",
        [
            ({"id": ""}, "id"),
            ({"id": None}, "id"),
            ({"id": "x" * 31}, "id"),
            ({"building": ""}, "building"),
            ({"building": None}, "building"),
            ({"seats": 0}, "seats"),
            ({"seats": 2.5}, "seats"),
            ({"seats": "many"}, "seats"),
            ({"seats": True}, "seats"),
        ],
    )
    def test_what_is_no_room(self, rooms, changes, match):
        with refused("invalid", match):
            rooms.add(**{"id": "blue", "building": "east", "seats": 8, **changes})

    def test_many_are_loaded_in_batches(self, rooms):
        rooms.load({"id": f"r{n}", "building": "east", "seats": n + 1} for n in range(60))
        assert len(rooms.in_building("east")[0]) == 60

    def test_the_last_of_two_with_an_id_is_loaded(self, rooms):
        rooms.load([{"id": "a", "building": "east", "seats": 1}, {"id": "a", "building": "east", "seats": 2}])
        assert rooms.get("a")["seats"] == 2


class TestReading:
    def test_an_unknown_room(self, rooms):
        with refused("not-found", "nothing"):
            rooms.get("nothing")

    def test_some_attributes(self, rooms, blue):
        assert rooms.get("blue", "seats", "building") == {"seats": 8, "building": "east"}

    def test_names_that_are_reserved_words(self, rooms):
        rooms.add(id="blue", building="east", seats=8, name="Blue", view="sea")
        assert rooms.get("blue", "name", "view") == {"name": "Blue", "view": "sea"}

    def test_a_missing_attribute_is_left_out(self, rooms, blue):
        assert rooms.get("blue", "id", "colour") == {"id": "blue"}

    def test_many(self, rooms, east):
        assert sorted(rooms.get_all(["r1", "r3", "nothing", "r1"])) == ["r1", "r3"]

    def test_more_than_a_batch(self, rooms):
        rooms.load({"id": f"r{n}", "building": "east", "seats": 1} for n in range(120))
        assert len(rooms.get_all(f"r{n}" for n in range(120))) == 120

    def test_none(self, rooms):
        assert rooms.get_all([]) == {}


class TestChanging:
    def test_the_version_grows(self, rooms, blue):
        assert rooms.change("blue", 1, seats=9)["version"] == 2
        assert rooms.change("blue", 2, seats=10)["version"] == 3

    def test_an_old_version_is_a_conflict(self, rooms, blue):
        rooms.change("blue", 1, seats=9)
        with refused("conflict", "version 1"):
            rooms.change("blue", 1, seats=10)
        assert rooms.get("blue")["seats"] == 9

    def test_an_unknown_room_is_a_conflict(self, rooms):
        with refused("conflict"):
            rooms.change("nothing", 1, seats=9)

    def test_attributes_are_removed(self, rooms):
        rooms.add(id="blue", building="east", seats=8, name="Blue", view="sea")
        room = rooms.change("blue", 1, remove=["view", "smell"], name="Navy")
        assert room == {"id": "blue", "building": "east", "seats": 8, "name": "Navy", "version": 2}

    @pytest.mark.parametrize("name", ["id", "version"])
    def test_some_cannot_be_changed(self, rooms, blue, name):
        with refused("invalid"):
            rooms.change("blue", 1, remove=[name])

    def test_another_building_moves_it_in_the_index(self, rooms, blue):
        rooms.change("blue", 1, building="west")
        assert rooms.in_building("east") == ([], None)
        assert [r["id"] for r in rooms.in_building("west")[0]] == ["blue"]

    def test_without_seats_it_is_not_in_the_index(self, rooms, blue):
        rooms.change("blue", 1, remove=["seats"])
        assert rooms.in_building("east")[0] == []

    def test_seats_are_a_number(self, rooms, blue):
        with invalid():
            rooms.change("blue", 1, seats="many")

    def test_of_many_changes_of_a_version_one_is_made(self, rooms, blue):
        def change(n):
            try:
                return rooms.change("blue", 1, seats=n)
            except BookingError as error:
                return error.code

        with ThreadPoolExecutor(4) as pool:
            outcomes = list(pool.map(change, range(1, 7)))
        assert outcomes.count("conflict") == 5
        assert rooms.get("blue")["version"] == 2


class TestEquipmentNotesPrices:
    def test_equipment_is_added(self, rooms, blue):
        assert rooms.equip("blue", "screen") == {"screen"}
        assert rooms.equip("blue", "phone", "screen") == {"phone", "screen"}

    def test_equipment_is_taken_away(self, rooms, blue):
        rooms.equip("blue", "phone", "screen")
        assert rooms.strip("blue", "phone", "sofa") == {"screen"}

    def test_the_last_piece_takes_the_set_away(self, rooms, blue):
        rooms.equip("blue", "phone")
        assert rooms.strip("blue", "phone") == set()
        assert "equipment" not in rooms.get("blue")

    def test_equipment_of_an_unknown_room(self, rooms):
        with refused("not-found"):
            rooms.equip("nothing", "phone")

    def test_parallel_equipment_is_all_there(self, rooms, blue):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: rooms.equip("blue", f"t{n}"), range(8)))
        assert rooms.get("blue")["equipment"] == {f"t{n}" for n in range(8)}

    def test_notes_begin_with_the_last(self, rooms, blue):
        rooms.note("blue", "first")
        assert rooms.note("blue", "second") == ["second", "first"]

    def test_five_notes_are_kept(self, rooms, blue):
        for n in range(7):
            notes = rooms.note("blue", str(n))
        assert notes == ["6", "5", "4", "3", "2"]

    def test_prices_of_seasons(self, rooms, blue):
        rooms.price("blue", "summer", Decimal("12.50"))
        assert rooms.price("blue", "winter.late", 8) == {"summer": Decimal("12.5"), "winter.late": 8}

    def test_a_price_is_stored_over(self, rooms, blue):
        rooms.price("blue", "summer", 1)
        assert rooms.price("blue", "summer", 2) == {"summer": 2}

    def test_the_price_of_an_unknown_room(self, rooms):
        with refused("not-found"):
            rooms.price("nothing", "summer", 1)


class TestBuilding:
    def seats(self, page):
        return [int(room["seats"]) for room in page[0]]

    def test_by_seats(self, rooms, east):
        assert self.seats(rooms.in_building("east")) == [10, 20, 30, 40, 50, 60, 70, 80, 90]

    def test_largest_first(self, rooms, east):
        assert self.seats(rooms.in_building("east", largest_first=True, limit=2)) == [90, 80]

    def test_an_unknown_building(self, rooms, east):
        assert rooms.in_building("north") == ([], None)

    @pytest.mark.parametrize(
        "least, most, want",
        [(80, None, [80, 90]), (None, 20, [10, 20]), (30, 50, [30, 40, 50]), (31, 39, []), (30, 30, [30])],
    )
    def test_seats(self, rooms, east, least, most, want):
        assert self.seats(rooms.in_building("east", least=least, most=most)) == want

    def test_more_than_most_is_refused(self, rooms, east):
        with invalid("BETWEEN"):
            rooms.in_building("east", least=5, most=1)

    @pytest.mark.parametrize("limit", [1, 2, 4, 8, 9, 10])
    def test_pages(self, rooms, east, limit):
        seen, start = [], None
        while True:
            items, start = rooms.in_building("east", limit=limit, start=start)
            assert len(items) <= limit
            seen += [int(room["seats"]) for room in items]
            if not start:
                break
        assert seen == [10, 20, 30, 40, 50, 60, 70, 80, 90]

    def test_the_end_of_a_page_has_all_keys(self, rooms, east):
        assert rooms.in_building("east", limit=1)[1] == {"id": "r1", "building": "east", "seats": 10}

    def test_a_page_goes_on_after_a_room_that_is_gone(self, rooms, east):
        start = rooms.in_building("east", limit=2)[1]
        rooms.remove("r2")
        assert self.seats(rooms.in_building("east", start=start, limit=2)) == [30, 40]

    def test_a_start_of_another_building_is_refused(self, rooms, east):
        start = rooms.in_building("east", limit=1)[1]
        with invalid("[Ee]xclusive[ ]?[Ss]tart[ ]?[Kk]ey|starting key"):
            rooms.in_building("west", start=start)

    def test_a_filter(self, rooms, east):
        assert self.seats(rooms.in_building("east", equipment="screen")) == [30, 60, 90]

    def test_a_page_of_a_filter_may_be_empty(self, rooms, east):
        items, start = rooms.in_building("east", equipment="screen", limit=2)
        assert items == [] and start


SEARCHES = {
    "comparison": (Attr("seats").gt(70), ["r8", "r9"]),
    "between": (Attr("seats").between(20, 30), ["lone", "r2", "r3"]),
    "in": (Attr("seats").is_in([10, 50, 55]), ["r1", "r5"]),
    "not": (~Attr("seats").gt(10), ["r1"]),
    "not equal": (Attr("building").ne("east"), ["lone"]),
    "or": (Attr("id").eq("r1") | Attr("id").eq("lone"), ["lone", "r1"]),
    "and": (Attr("floor").eq(1) & Attr("seats").lt(50), ["r4"]),
    "exists": (Attr("equipment").exists(), ["r3", "r6", "r9"]),
    "not exists": (Attr("floor").not_exists(), ["lone"]),
    "begins": (Attr("id").begins_with("lo"), ["lone"]),
    "contains in a set": (Attr("equipment").contains("screen"), ["r3", "r6", "r9"]),
    "contains in a string": (Attr("building").contains("es"), ["lone"]),
    "size": (Attr("building").size().eq(4) & Attr("id").size().gt(2), ["lone"]),
    "type": (Attr("equipment").attribute_type("SS"), ["r3", "r6", "r9"]),
    "of another type": (Attr("seats").eq("10"), []),
    "missing is not less": (Attr("floor").lt(1), ["r1", "r2", "r3"]),
}


class TestSearch:
    @pytest.mark.parametrize("name", SEARCHES)
    def test_filters(self, rooms, east, name):
        filter, want = SEARCHES[name]
        assert rooms.search(filter) == want

    @pytest.mark.parametrize("segments", [2, 5])
    def test_segments(self, rooms, east, segments):
        assert len(rooms.search(Attr("id").exists(), segments)) == 10

    def test_an_empty_table(self, rooms):
        assert rooms.search(Attr("id").exists()) == []


class TestRemoving:
    def test_a_room_is_returned(self, rooms, blue):
        assert rooms.remove("blue")["seats"] == 8
        with refused("not-found"):
            rooms.get("blue")

    def test_it_is_out_of_the_index(self, rooms, blue):
        rooms.remove("blue")
        assert rooms.in_building("east")[0] == []

    def test_an_unknown_room(self, rooms):
        with refused("not-found"):
            rooms.remove("nothing")
