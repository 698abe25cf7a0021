#!/usr/bin/env python3
"""page.py NEW.html OLD.html: two pages of docs/page.py. In each all sections are there, every
data URI decodes, a picture to its last row, nothing is loaded from elsewhere, links lead
somewhere. OLD says what NEW says but for what is measured, and for sections that NEW leaves
out as there is no Vulkan here. Pages that are spoilt on purpose are told."""
import base64
import difflib
import html.parser
import os
import re
import struct
import sys
import urllib.parse
import zlib

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs')
SECTIONS = {'hello', 'photo', 'schedule', 'profile', 'race', 'figures'}
OPTIONAL = {'vulkan', 'particles'}
PICTURES = {'photo': 2, 'particles': 1}
MOST_BYTES = 700 << 10
VOID = {'meta', 'link', 'img', 'input', 'br', 'hr'}
SVG = 'http://www.w3.org/2000/svg'     # a name, from which nothing is loaded
LOADS = ('src', 'srcset', 'poster', 'data', 'action', 'background')


def check(good, *why):
    if not good:
        raise ValueError(' '.join(map(str, why))[:2000])


# ---- data URIs


def check_png(data):
    check(data[:8] == b'\x89PNG\r\n\x1a\n', 'not a PNG')
    at, pixels, head, last = 8, b'', None, None
    while at < len(data):
        size, last = struct.unpack_from('>I4s', data, at)
        body = data[at + 8:at + 8 + size]
        check(struct.unpack_from('>I', data, at + 8 + size)[0] == zlib.crc32(last + body),
              'PNG: a checksum')
        head = struct.unpack('>IIBB', body[:10]) if last == b'IHDR' else head
        pixels += body if last == b'IDAT' else b''
        at += size + 12
    check(last == b'IEND', 'PNG: no end')
    width, height, bits, colour = head
    row = 1 + width * {2: 3, 3: 1}[colour]
    check(bits == 8 and len(zlib.decompress(pixels)) == row * height, 'PNG: its size')
    return width, height


def check_data(uri):
    """The size of a picture; None: an empty one, which keeps browsers from asking for it."""
    if uri == 'data:,':
        return None
    check(uri.startswith('data:image/png;base64,'), 'a data URI:', uri[:60])
    return check_png(base64.b64decode(uri.split(',', 1)[1], validate=True))


def check_style(text):
    places = re.findall(r'url\((.*?)\)', text)
    check(all(place.startswith('#') for place in places) and '@import' not in text, places)


# ---- a page


class Page(html.parser.HTMLParser):
    """Sections with their words and pictures; what the page would load is refused."""

    def __init__(self, text):
        super().__init__()
        self.open, self.sections, self.ids, self.links = [], {}, set(), []
        self.words, self.pictures, self.frames, self.drawn = {}, {}, {}, {}
        self.feed(text)
        self.close()
        check(not self.open, 'not closed:', self.open)

    def place(self):
        return next((name for _, name, _ in self.open if name), '')

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag not in VOID:
            measured = 'measured' in values.get('class', '').split()
            self.open.append((tag, values.get('id') if tag == 'section' else None, measured))
        here = self.place()
        self.ids.add(values.get('id'))
        check(tag not in ('script', 'object', 'embed', 'base', 'video', 'audio'), 'a', tag)
        check(values.get('http-equiv', '').lower() != 'refresh', 'it goes elsewhere')
        for name in LOADS:
            if name in values:
                check(tag == 'img' and name == 'src', tag, name)
        if tag == 'img':
            size = check_data(values['src'])
            check(size == (int(values['width']), int(values['height'])) and values['alt'], size)
            self.pictures[here] = self.pictures.get(here, 0) + 1
        elif tag == 'iframe':
            check('src' not in values, 'a frame from elsewhere')
            self.frames[here] = values['srcdoc']
        elif tag == 'a':
            self.links.append(values['href'])
        elif tag in ('rect', 'path'):
            self.drawn[here] = self.drawn.get(here, 0) + 1
        elif 'href' in values or 'xlink:href' in values:
            check(tag == 'link' and check_data(values['href']) is None, tag, 'with a href')
        check_style(values.get('style') or '')

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        check(self.open and self.open[-1][0] == tag, tag, 'ends', self.open[-1:])
        self.open.pop()

    def handle_data(self, data):
        if any(tag == 'style' for tag, _, _ in self.open):
            check_style(data)
        elif not any(measured for _, _, measured in self.open):
            self.words.setdefault(self.place(), []).extend(data.split())


def check_link(page, link):
    parts = urllib.parse.urlsplit(link)
    if parts.scheme:
        check(parts.scheme == 'https', link)
    elif parts.path:
        check(os.path.exists(os.path.join(DOCS, parts.path)), 'leads nowhere:', link)
    else:
        check(parts.fragment in page.ids, 'leads nowhere:', link)


def check_frame(text):
    """A page of hcq_profile_save, which profile.py knows better."""
    check('<svg' in text and '"traceEvents"' in text and '"hand over"' in text, 'not a profile')
    check(set(re.findall('[a-z]+://[^\'" ]*', text)) <= {SVG}, 'a profile that loads')
    check(not re.search('<link[^>]*href=.(?!data:)|@import|src=', text), 'a profile that loads')


def check_page(text):
    check(len(text.encode()) <= MOST_BYTES, len(text.encode()), 'bytes')
    page = Page(text)
    for name in SECTIONS | (OPTIONAL & set(page.words)):
        check(len(page.words.get(name, ())) > 20, f'"{name}" is missing')
        check(page.pictures.get(name, 0) == PICTURES.get(name, 0), f'"{name}": pictures')
    check(set(page.words) - {''} <= SECTIONS | OPTIONAL, 'more sections')
    check(set(page.frames) == {'profile'}, 'frames:', *page.frames)
    check_frame(page.frames['profile'])
    check(page.drawn.get('schedule', 0) >= 50, 'the schedule is not drawn')
    check('1000 of 1000 right' in ' '.join(page.words['hello']), 'hello')
    check('nothing orders the two' in ' '.join(page.words['race']), 'race')
    for link in page.links:
        check_link(page, link)
    return page


def same_words(new, old):
    left_out = OPTIONAL - set(new.words)
    for name in set(new.words) | set(old.words):
        one, other = old.words.get(name, []), new.words.get(name, [])
        if name in left_out or (name == '' and left_out):
            continue                   # '': its contents name the sections
        lines = list(difflib.unified_diff(one, other, 'there', 'now', lineterm=''))
        check(not lines, f'section "{name}" is out of date, run docs/page.py:', *lines)


# ---- can it fail?

SPOILT = ((r'<section id="race">', '<section id="rice">'), ('<img src="data:', '<img src="https:'),
          ('base64,i', 'base64,j'), (r'<h2>', '<h2><script src="x.js"></script>'),
          ('(?s)<img .*?>', ''), ('href="#hello"', 'href="#hallo"'), ('</section>', ''),
          (r'\.\./README.md', '../README.txt'), ('(?s)srcdoc=".*?"', 'src="p.html"'),
          ('(<style>)', r'\1@import "x.css";'), ('(?s)<svg.*?</svg>', ''),
          ('right', 'wrong'), (r'(?s)(base64,.{2000}).', r'\1!'))


def check_spoilt(text):
    for pattern, instead in SPOILT:
        spoilt = re.sub(pattern, instead, text, count=0 if pattern == 'right' else 1)
        check(spoilt != text, 'nothing is spoilt by', pattern)
        try:
            check_page(spoilt)
        except (ValueError, KeyError, zlib.error, struct.error):
            continue
        raise ValueError('nobody tells of ' + pattern)


def main(names):
    texts = []
    for name in names:
        with open(name, encoding='utf-8') as file:
            texts.append(file.read())
    new, old = map(check_page, texts)
    same_words(new, old)
    check_spoilt(texts[1])
    left_out = OPTIONAL - set(new.words)
    print('ok:', len(new.words) - 1, 'sections', *('without ' + name for name in sorted(left_out)))


if __name__ == '__main__':
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(f'page.py: FAIL: {error}')
