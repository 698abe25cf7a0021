#version 450
// engine.frag - the light of a particle, which is added to what is there.

layout(location = 0) flat in vec4 colour;
layout(location = 0) out vec4 pixel;

void main() {
    pixel = colour;
}
