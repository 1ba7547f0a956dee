"""Service accounts: keys, access tokens, scopes and grants of projects."""

from attrib_ds.service.accounts.accounts import Access, Accounts, Key, Token
from attrib_ds.service.accounts.exchange import OAuthError, exchange

__all__ = ["Access", "Accounts", "Key", "OAuthError", "Token", "exchange"]
