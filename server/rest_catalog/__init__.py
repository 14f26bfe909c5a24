"""Other people's catalogs over HTTP: asked, never written, and trusted with nothing but what was asked of them."""
