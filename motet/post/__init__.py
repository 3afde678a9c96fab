"""What happens to a reply between a client's training and the server: clipped, compressed, made noisy."""

from motet.post.attacks import attack_of
from motet.post.post import Arrival, Post, opened, packed
from motet.post.registry import POSTS, build_posts, canonical_posts, describe_posts

__all__ = [
    "POSTS",
    "Arrival",
    "Post",
    "attack_of",
    "build_posts",
    "canonical_posts",
    "describe_posts",
    "opened",
    "packed",
]
