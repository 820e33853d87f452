from concurrent.futures import ThreadPoolExecutor

import pytest

from support import refused


@pytest.fixture
def ada(guests):
    return guests.register("ada", "ada@example.org")


@pytest.fixture
def bob(guests):
    return guests.register("bob", "bob@example.org", language="en")


def test_a_guest_has_no_credits(guests, ada):
    assert guests.get("ada") == {"pk": "guest#ada", "id": "ada", "email": "ada@example.org", "credits": 0}


def test_a_guest_has_more(guests, bob):
    assert guests.get("bob")["language"] == "en"


def test_an_unknown_guest(guests):
    with refused("not-found"):
        guests.get("nobody")


def test_an_id_is_used_once(guests, ada):
    with refused("refused", "guest ada"):
        guests.register("ada", "other@example.org")
    assert guests.by_email("other@example.org") is None


def test_an_address_is_used_once(guests, ada):
    with refused("refused", "in use"):
        guests.register("eve", "ADA@example.org")
    with refused("not-found"):
        guests.get("eve")


@pytest.mark.parametrize("email", [None, "", "ada"])
def test_no_address(guests, email):
    with refused("invalid"):
        guests.register("ada", email)


def test_of_many_with_an_address_one_is_registered(guests):
    def register(n):
        try:
            return guests.register(f"g{n}", "race@example.org")
        except Exception as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(register, range(6)))
    assert len([o for o in outcomes if isinstance(o, dict)]) == 1
    assert guests.by_email("race@example.org") in outcomes


@pytest.mark.parametrize("email", ["ada@example.org", "Ada@Example.Org"])
def test_a_guest_is_found_by_the_address(guests, ada, email):
    assert guests.by_email(email)["id"] == "ada"


def test_an_unknown_address(guests):
    assert guests.by_email("nobody@example.org") is None


def test_credits_are_added(guests, ada):
    assert guests.credit("ada", 30) == 30
    assert guests.credit("ada", 12) == 42


def test_parallel_credits_are_all_added(guests, ada):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: guests.credit("ada", n), range(1, 9)))
    assert guests.get("ada")["credits"] == 36


def test_credits_of_an_unknown_guest(guests):
    with refused("not-found"):
        guests.credit("nobody", 1)


class TestTransfer:
    def credits(self, guests):
        return [int(guests.get(id)["credits"]) for id in ("ada", "bob")]

    def test_moves(self, guests, ada, bob):
        guests.credit("ada", 50)
        guests.transfer("ada", "bob", 20)
        assert self.credits(guests) == [30, 20]

    def test_all_there_is(self, guests, ada, bob):
        guests.credit("ada", 50)
        guests.transfer("ada", "bob", 50)
        assert self.credits(guests) == [0, 50]

    def test_more_than_there_is(self, guests, ada, bob):
        guests.credit("ada", 50)
        with refused("refused", "51 credits"):
            guests.transfer("ada", "bob", 51)
        assert self.credits(guests) == [50, 0]

    def test_to_an_unknown_guest(self, guests, ada):
        guests.credit("ada", 50)
        with refused("refused", "no guest nobody"):
            guests.transfer("ada", "nobody", 1)
        assert guests.get("ada")["credits"] == 50

    def test_from_an_unknown_guest(self, guests, ada):
        with refused("refused", "guest nobody"):
            guests.transfer("nobody", "ada", 1)

    @pytest.mark.parametrize("amount", [0, -5])
    def test_nothing(self, guests, ada, bob, amount):
        with refused("invalid"):
            guests.transfer("ada", "bob", amount)

    def test_to_oneself_is_refused_by_the_database(self, guests, ada):
        guests.credit("ada", 50)
        with pytest.raises(Exception, match="multiple operations on one item"):
            guests.transfer("ada", "ada", 1)

    def test_there_and_back_keeps_the_sum(self, guests, ada, bob):
        guests.credit("ada", 10)
        guests.credit("bob", 10)
        for n in range(1, 6):
            guests.transfer("ada", "bob", n)
            guests.transfer("bob", "ada", n + 1)
        assert self.credits(guests) == [15, 5]


class TestRemoving:
    def test_frees_the_address(self, guests, ada):
        guests.remove("ada")
        assert guests.by_email("ada@example.org") is None
        assert guests.register("ada", "ada@example.org")["credits"] == 0

    def test_not_with_credits(self, guests, ada):
        guests.credit("ada", 1)
        with refused("refused", "credits left"):
            guests.remove("ada")
        assert guests.by_email("ada@example.org")["id"] == "ada"

    def test_an_unknown_guest(self, guests):
        with refused("not-found"):
            guests.remove("nobody")
