"""Routes of the accounts app."""

from django.urls import URLPattern, URLResolver, path, re_path

from hub.accounts import account_pages, api, entrance_pages, pages, team_api, team_pages, user_api, user_pages

api_urls: list[URLPattern | URLResolver] = [
    path("me", api.me),
    path("tokens", api.tokens),
    path("tokens/<id:token_id>", api.token_detail),
    path("users", user_api.users),
    path("users/<str:name>", user_api.user_detail),
    path("teams", team_api.teams),
    path("teams/<slug:team>", team_api.team_detail),
    path("teams/<slug:team>/members", team_api.members),
    path("teams/<slug:team>/members/<slug:user>", team_api.member_detail),
    path("teams/<slug:team>/invitations", team_api.invitations),
    path("teams/<slug:team>/invitations/<id:invitation_id>", team_api.invitation_detail),
    path("join", team_api.join),
    path("device/code", api.device_code),
    path("device/token", api.device_token),
]
page_urls: list[URLPattern | URLResolver] = [
    path("login", pages.login, name="account_login"),
    path("login/link/<str:secret>", pages.login_link, name="login-link"),
    path("invitation/<str:secret>", user_pages.invitation, name="invitation"),
    path("logout", pages.logout, name="account_logout"),
    path("device", pages.device, name="device"),
    path("settings/tokens", pages.tokens, name="tokens"),
    path("settings/tokens/<id:token_id>/revoke", pages.token_revoke, name="token-revoke"),
    path("settings/users", user_pages.user_list, name="users"),
    path("settings/users/<str:name>/disable", user_pages.user_disable, name="user-disable"),
    path("settings/users/<str:name>/enable", user_pages.user_enable, name="user-enable"),
    path("settings/teams", team_pages.team_list, name="teams"),
    path("teams/<slug:team>", team_pages.team_detail, name="team"),
    path("teams/<slug:team>/rename", team_pages.team_rename, name="team-rename"),
    path("teams/<slug:team>/delete", team_pages.team_delete, name="team-delete"),
    path("teams/<slug:team>/members", team_pages.member_add, name="team-add"),
    path("teams/<slug:team>/members/<slug:user>/role", team_pages.member_role, name="team-role"),
    path("teams/<slug:team>/members/<slug:user>/remove", team_pages.member_remove, name="team-remove"),
    path("teams/<slug:team>/invitations", team_pages.invitation_make, name="team-invite"),
    path("teams/<slug:team>/invitations/<id:invitation_id>/revoke", team_pages.invitation_revoke, name="team-revoke"),
    path("join/<str:secret>", team_pages.join, name="team-join"),
    path("settings/password", pages.password, name="password"),
    path("settings/account", account_pages.account, name="account"),
    path("settings/account", account_pages.account, name="mfa_index"),  # where django-allauth leads back to
    path("settings/account/mail", account_pages.mail_addresses, name="account_email"),
    path("settings/account/two-factor", account_pages.second_factor_on, name="mfa_activate_totp"),
    path("settings/account/two-factor/off", account_pages.second_factor_off, name="mfa_deactivate_totp"),
    path("settings/account/recovery-codes", account_pages.codes, name="mfa_view_recovery_codes"),
    path("settings/account/recovery-codes/new", account_pages.codes_new, name="mfa_generate_recovery_codes"),
    path("settings/account/sessions", account_pages.sessions, name="sessions"),
    path("settings/account/identities", account_pages.identities, name="socialaccount_connections"),
    path("settings/confirm", account_pages.confirm_password, name="account_reauthenticate"),
    path("settings/confirm/code", account_pages.confirm_code, name="mfa_reauthenticate"),
    path("signup", entrance_pages.sign_up, name="account_signup"),
    path("password/forgotten", entrance_pages.password_forgotten, name="account_reset_password"),
    path("password/forgotten/sent", entrance_pages.password_sent, name="account_reset_password_done"),
    path("password/done", entrance_pages.password_done, name="account_reset_password_from_key_done"),
    re_path(
        r"^password/new/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)$",
        entrance_pages.password_new,
        name="account_reset_password_from_key",
    ),
    path("mail/sent", entrance_pages.mail_sent, name="account_email_verification_sent"),
    path("mail/confirm/<str:key>", entrance_pages.mail_confirm, name="account_confirm_email"),
    path("login/disabled", entrance_pages.disabled, name="account_inactive"),
    path("login/second-factor", entrance_pages.second_factor, name="mfa_authenticate"),
    path("login/identity/<slug:provider_id>", entrance_pages.identity_login, name="openid_connect_login"),
    path(
        "login/identity/<slug:provider_id>/callback", entrance_pages.identity_callback, name="openid_connect_callback"
    ),
    path("login/cancelled", entrance_pages.identity_cancelled, name="socialaccount_login_cancelled"),
]
