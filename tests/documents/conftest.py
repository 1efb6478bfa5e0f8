"""What tests of documents share."""

from support.mongo_server import mongo

__all__ = ["mongo"]
