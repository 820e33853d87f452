"""A booking service: rooms, guests, holds that expire, bookings that do not overlap, and their history."""

from .desk import Desk
from .errors import BookingError

__all__ = ["BookingError", "Desk"]
