"""The service's own pages: sign-in, the list of experiments, an experiment, forms that change it, simulations.

They show what the API shows and do what it does, by the same commands. Whoever looks has a key in a cookie
(`belated.service.pages.session`).
"""

from belated.service.pages.router import Pages as Pages
from belated.service.pages.router import is_page as is_page
