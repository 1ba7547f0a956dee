"""Service accounts: who may use which projects, proven by keys and access tokens."""

from attrib_ds.service.accounts.accounts import Access, Accounts, Key, Token
from attrib_ds.service.accounts.exchange import exchange
from attrib_ds.service.accounts.key_files import KeyFile
from attrib_ds.service.accounts.refusal import Refusal

__all__ = ["Access", "Accounts", "Key", "KeyFile", "Refusal", "Token", "exchange"]
