"""
Client of the platform control plane: asks whether data may be protected, opened or rewrapped, and records what was
done. No content ever goes to the service.
"""

from . import bulk_v1 as bulk_v1
from . import v1 as v1
from .aio import AsyncPlatformClient as AsyncPlatformClient
from .client import PlatformClient as PlatformClient
from .decisions import Decision as Decision
from .decisions import permitted as permitted
from .decisions import require_allow as require_allow
from .errors import NotPermitted as NotPermitted
from .errors import PlatformError as PlatformError
from .errors import ReceiptRefused as ReceiptRefused
from .errors import Violation as Violation
from .options import ClientCredentials as ClientCredentials
from .options import Options as Options
from .options import Retry as Retry
from .options import SessionTokens as SessionTokens
from .options import Tls as Tls
from .options import TokenFunction as TokenFunction
from .receipts import VerifiedReceipt as VerifiedReceipt
from .receipts import continues as continues
from .receipts import verify_answer as verify_answer
from .receipts import verify_item as verify_item
from .receipts import verify_receipt as verify_receipt
from .streams import AsyncEventStream as AsyncEventStream
from .streams import AsyncItemStream as AsyncItemStream
from .streams import AsyncRegistrationStream as AsyncRegistrationStream
from .streams import EventStream as EventStream
from .streams import ItemStream as ItemStream
from .streams import RegistrationStream as RegistrationStream
