"""Routes of the accounts app."""

from django.urls import URLPattern, URLResolver, path

from hub.accounts import api, pages, team_api, team_pages, user_api, user_pages

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
    path("login", pages.login, name="login"),
    path("login/link/<str:secret>", pages.login_link, name="login-link"),
    path("invitation/<str:secret>", user_pages.invitation, name="invitation"),
    path("logout", pages.logout, name="logout"),
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
]
