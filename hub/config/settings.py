"""Django settings. Everything that may differ between installations comes from HubEnvironment."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, get_args

from envhub.client.telemetry.json_logs import TEXT
from envhub.protocol.registry.files import FileKind

from hub.config.database import parse as parse_database
from hub.config.environment import load
from hub.config.mail import parse as parse_mail
from hub.config.sign_in import sign_in_settings
from hub.core.ids import SHORTEST
from hub.core.requests.csp import policy
from hub.core.requests.tags import TAGS

HUB = load()
ROOT = Path(__file__).resolve().parents[2]

SECRET_KEY = HUB.resolved_secret_key()
DEBUG = HUB.debug
ALLOWED_HOSTS = [str(HUB.base_url.host), "127.0.0.1", "localhost", "[::1]", *HUB.allowed_hosts]
CSRF_TRUSTED_ORIGINS = [str(HUB.base_url).rstrip("/")]
USE_X_FORWARDED_HOST = False
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HUB.base_url.scheme == "https"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HUB.base_url.scheme == "https" else None

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "hub.core",
    "hub.accounts",
    "hub.storage",
    "hub.runs",
    "hub.secrets",
    "hub.backups",
    "hub.registry",
    "hub.catalog",
    "hub.data",
    "hub.notices",
    "hub.webhooks",
    "hub.evals",
    "hub.sandboxes",
    "hub.training",
    "hub.inference",
    "hub.audit",
    "hub.bundles",
    "hub.links",
    "hub.compat",
    "hub.api",
    "hub.web",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "hub.core.requests.protocol_numbers.ProtocolNumbers",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "hub.core.requests.compression.CompressedPages",
    "hub.core.requests.conditional.ConditionalAnswers",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "hub.accounts.middleware.IdentityChecks",
    "hub.audit.middleware.audit_log",
]

CONTENT_SECURITY_POLICY = policy()

ROOT_URLCONF = "hub.config.urls"
ASGI_APPLICATION = "hub.config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "frontend" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "hub.accounts.chosen_owner.acting_for",
            ],
        },
    },
]

_SQLITE_OPTIONS: dict[str, Any] = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
}
DATABASES = {"default": parse_database(HUB.resolved_database_url())}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"].setdefault("OPTIONS", {}).update(_SQLITE_OPTIONS)
else:
    # Under ASGI every request has a thread of its own: nobody would use its connection again, and it would stay open.
    DATABASES["default"]["CONN_MAX_AGE"] = 0
    if HUB.database_pool:
        DATABASES["default"].setdefault("OPTIONS", {})["pool"] = {
            "min_size": 1,
            "max_size": HUB.database_pool,
            "timeout": 10,  # seconds that a request waits: whoever sent it hears of it before they give up
            "reconnect_timeout": 3,  # pauses between tries double until then; the next request begins them anew
        }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

ACCOUNT_ADAPTER = "hub.accounts.adapters.AccountAdapter"
ACCOUNT_EMAIL_SUBJECT_PREFIX = "[Environments Hub] "
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 15 * 60
ACCOUNT_USER_MODEL_EMAIL_FIELD = None  # addresses have rows of their own, which are indexed
ACCOUNT_USERNAME_MIN_LENGTH = 1
_mail = parse_mail(HUB.mail_url)
EMAIL_BACKEND, EMAIL_FILE_PATH = _mail.backend, _mail.directory
EMAIL_HOST, EMAIL_PORT, EMAIL_TIMEOUT = _mail.host, _mail.port, 10
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail.user, _mail.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.starttls, _mail.tls
DEFAULT_FROM_EMAIL = HUB.mail_from or f"Environments Hub <noreply@{HUB.base_url.host}>"
MFA_ADAPTER = "hub.secrets.second_factors.SecondFactors"
MFA_FORMS = {
    "add_webauthn": "hub.accounts.passkeys.NewPasskey",
    "authenticate_webauthn": "hub.accounts.passkeys.SecondPasskey",
    "edit_webauthn": "hub.accounts.passkeys.PasskeyName",
    "login_webauthn": "hub.accounts.passkeys.PasskeyLogin",
    "reauthenticate_webauthn": "hub.accounts.passkeys.PasskeyAgain",
}
MFA_TOTP_ISSUER = "Environments Hub"
MFA_TOTP_TOLERANCE = 1  # a clock that is half a minute off
SOCIALACCOUNT_ADAPTER = "hub.accounts.adapters.IdentityAdapter"
SOCIALACCOUNT_EMAIL_REQUIRED = False
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"  # an address that the provider has not verified stays unverified
SOCIALACCOUNT_LOGIN_ON_GET = True  # the CSP forbids a form that ends at another host; a state guards the way back
SOCIALACCOUNT_REQUESTS_TIMEOUT = 10
globals().update(sign_in_settings(HUB))
if HUB.broker_url.startswith("redis"):  # limits and spent codes hold for all web processes together
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": HUB.broker_url,
            "KEY_PREFIX": "hub",
            "OPTIONS": {"serializer": "hub.core.cache_json.JsonSerializer"},
        }
    }

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
APPEND_SLASH = False

STATIC_URL = "/static/"
STATIC_ROOT = HUB.data / "static"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # whitenoise warns about a missing one
STATICFILES_DIRS = [ROOT / "frontend" / "static"]
WHITENOISE_USE_FINDERS = True
warnings.filterwarnings("ignore", "StreamingHttpResponse must consume")  # its files are small; downloads are async
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "hub.accounts.authentication.TokenAuthentication",
        "hub.runs.authentication.WorkerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"],  # every view checks visibility itself
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["hub.core.requests.json_body.StrictJsonParser"],
    "DEFAULT_SCHEMA_CLASS": "hub.api.schema.HubSchema",
    "EXCEPTION_HANDLER": "hub.api.errors.handle",
    "URL_FORMAT_OVERRIDE": None,  # `?format=` is a parameter of our own
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "COMPONENT_SPLIT_PATCH": False,  # it would mark a model that one PATCH takes as partial for all that come later
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "TITLE": "Environments Hub API",
    "DESCRIPTION": "Send an API token (Settings, API tokens) as `Authorization: Bearer hub_...`; what is public needs "
    "none. Lists come in pages: `next` is the whole address of the next one, null at the end.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",  # pydantic writes `null` types
    "SERVE_INCLUDE_SCHEMA": False,
    "ENUM_NAME_OVERRIDES": {"FileKindEnum": list(get_args(FileKind))},  # requests and views share it
    "PATH_CONVERTER_OVERRIDES": {"id": {"type": "string", "minLength": SHORTEST, "maxLength": 36}},
    "TAGS": TAGS,
}

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"text": {"format": TEXT}, "json": {"()": "envhub.client.telemetry.json_logs.JsonLines"}},
    "filters": {"throttle": {"()": "hub.core.log_throttle.LogThrottle", "seconds": 10}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": HUB.log_format}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django.request": {"level": "ERROR"},  # 4xx are answers: a login that waits for approval gets one every 2 s
        "httpx": {"level": "WARNING"},
        "kombu.connection": {"level": "ERROR"},
        "psycopg.pool": {"filters": ["throttle"]},  # a line for each try to reach a database that is away
    },
}
if HUB.log_format == "json":  # the web server's own lines, too, which have a handler of their own
    LOGGING["loggers"]["uvicorn"] = {"handlers": ["stderr"], "propagate": False}
