from .audit import list_audit as list_audit
from .backups import back_up as back_up
from .backups import check as check
from .identities import (
    delete_user as delete_user,
)
from .identities import (
    export_user_data as export_user_data,
)
from .identities import (
    merge_users as merge_users,
)
from .identities import (
    split_user as split_user,
)
from .integrations import create_integration as create_integration
from .keys import create_key as create_key
from .keys import list_keys as list_keys
from .keys import revoke_key as revoke_key
from .rates import list_rates as list_rates
from .rates import set_rates as set_rates
from .settings import get_settings as get_settings
from .settings import update_settings as update_settings
