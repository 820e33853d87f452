"""The whole service on one database."""

import time

import boto3

from .bookings import Bookings
from .guests import Guests
from .history import History
from .rooms import Rooms


class Desk:
    """Takes the arguments of boto3.client, such as endpoint_url."""

    session = None

    def __init__(self, now=time.time, **arguments):
        if Desk.session is None:  # a session reads the descriptions of services once
            Desk.session = boto3.session.Session()
        self.resource = Desk.session.resource("dynamodb", **arguments)
        self.client = self.resource.meta.client
        self.streams = Desk.session.client("dynamodbstreams", **arguments)
        self.now = now
        self.rooms = Rooms(self.resource)
        self.guests = Guests(self.resource)
        self.bookings = Bookings(self.resource, lambda: self.now())

    def history(self):
        return History(self.client, self.streams)
